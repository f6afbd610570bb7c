package proc

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"slices"
	"sync"
)

// Capture is an io.Writer that keeps the head and the tail of what is written to it, counts its bytes
// and hashes the whole. It takes no more memory than both. All methods may be called concurrently.
type Capture struct {
	mu   sync.Mutex
	head []byte
	tail []byte // a ring once it is full
	next int    // where the ring's oldest byte is
	max  [2]int
	n    int64
	hash hash.Hash
}

// NewCapture returns a Capture that keeps the first head and the last tail bytes.
func NewCapture(head, tail int) *Capture {
	return &Capture{max: [2]int{head, tail}, hash: sha256.New()}
}

// Write never fails.
func (c *Capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(p)
	c.n += int64(n)
	c.hash.Write(p)
	if room := min(c.max[0]-len(c.head), len(p)); room > 0 {
		c.head = append(c.head, p[:room]...)
		p = p[room:]
	}
	if cap := c.max[1]; len(p) >= cap {
		c.tail = append(c.tail[:0], p[len(p)-cap:]...)
		c.next = 0
		return n, nil
	}
	if room := min(c.max[1]-len(c.tail), len(p)); room > 0 {
		c.tail = append(c.tail, p[:room]...)
		p = p[room:]
	}
	for len(p) > 0 {
		k := copy(c.tail[c.next:], p)
		c.next = (c.next + k) % len(c.tail)
		p = p[k:]
	}
	return n, nil
}

// Head is a copy of the first bytes.
func (c *Capture) Head() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.head)
}

// Tail is a copy of the last bytes that are not in Head. If Bytes is the length of both, Head followed by
// Tail is the whole; else what is between them was dropped.
func (c *Capture) Tail() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Concat(c.tail[c.next:], c.tail[:c.next])
}

// Bytes is the length of the whole.
func (c *Capture) Bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// SHA256 is the hash of the whole in hexadecimal.
func (c *Capture) SHA256() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return hex.EncodeToString(c.hash.Sum(nil))
}
