package gateway

// buffer collects bytes up to a limit, in memory that it asks for.
type buffer struct {
	data []byte
	most int
	grow func(bytes int) bool // says whether so many more may be held
}

// add appends p, or nothing if that would be too much.
func (b *buffer) add(p []byte) bool {
	const least = 4 << 10
	need := len(b.data) + len(p)
	if need > b.most {
		return false
	}
	if need > cap(b.data) {
		size := min(max(2*cap(b.data), need, least), b.most)
		if !b.grow(size - cap(b.data)) {
			return false
		}
		b.data = append(make([]byte, 0, size), b.data...)
	}
	b.data = append(b.data, p...)
	return true
}

func (b *buffer) reset() { b.data = b.data[:0] }
