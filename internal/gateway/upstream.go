package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// upstream answers a request that may be sent: the provider does, or a record. Header and body of the
// answer are not to be trusted. An error that is no *unsentError or *problem comes after the request was
// sent, at least in part.
type upstream interface {
	ask(ctx context.Context, route route, header http.Header, body []byte) (*http.Response, error)
	close()
}

// unsentError is a request that has not reached the provider, and therefore costs nothing.
type unsentError struct{ error }

// provider is the server that the key belongs to.
type provider struct {
	transport *http.Transport
	base      *url.URL
	header    http.Header // of every request
	control   func(network, address string, _ syscall.RawConn) error
}

// dial prepares to ask the provider; it connects to nobody yet.
func dial(o Options, f format, warn func(string)) (*provider, error) {
	base, err := url.Parse(o.Upstream)
	switch {
	case err != nil || base.Scheme != "https" && base.Scheme != "http" || base.Hostname() == "":
		return nil, errors.New("the base URL must be https://HOST/PATH") // it may hold what is not for a message
	case base.User != nil:
		return nil, errors.New("the base URL must not hold a name or a password")
	}
	base.Fragment = ""
	f.upstream(base)
	p := &provider{base: base, header: http.Header{
		"Content-Type": {"application/json"}, "Accept-Encoding": {"identity"}, "User-Agent": {"git-spot"},
	}}
	if o.Key != "" {
		const longest = 4 << 10
		if len(o.Key) > longest || strings.ContainsFunc(o.Key, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, errors.New("the key is too long, or has bytes that no key has")
		}
		f.authorize(p.header, base.Hostname(), o.Key)
		if base.Scheme == "http" {
			switch near(base.Hostname()) {
			case elsewhere:
				return nil, fmt.Errorf("the key would go to %s unencrypted: the base URL must begin with https://", base.Host)
			case network:
				warn(fmt.Sprintf("the key goes to %s unencrypted", base.Host))
			}
			// A name is only as near as the address that it has at the time.
			p.control = func(_, address string, _ syscall.RawConn) error {
				if host, _, err := net.SplitHostPort(address); err != nil || near(host) == elsewhere {
					return fmt.Errorf("the key would go to %s unencrypted", address)
				}
				return nil
			}
		}
	}
	dialer := &net.Dialer{Timeout: 30 * time.Second, Control: p.control}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // a connection each: what one stream does is no other's trouble
	p.transport = &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dialer.DialContext,
		Protocols:              protocols,
		TLSHandshakeTimeout:    30 * time.Second,
		MaxIdleConnsPerHost:    8,
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: 256 << 10,
		DisableCompression:     true,
	}
	return p, nil
}

// distance is how far away a host is.
type distance int

const (
	machine   distance = iota
	network            // of the user, and not the Internet
	elsewhere          // or not known
)

// near says how far away a host, a name or an address, is.
func near(host string) distance {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if addr, err := netip.ParseAddr(host); err == nil {
		addr = addr.Unmap()
		shared := netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64}), 10) // of a provider or an overlay, RFC 6598
		switch {
		case addr.IsLoopback():
			return machine
		case addr.IsPrivate() || addr.IsLinkLocalUnicast() || shared.Contains(addr):
			return network
		}
		return elsewhere
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return machine
	}
	for _, suffix := range []string{".local", ".lan", ".internal", ".home.arpa"} {
		if strings.HasSuffix(host, suffix) {
			return network
		}
	}
	if !strings.Contains(host, ".") {
		return network
	}
	return elsewhere
}

func (p *provider) ask(ctx context.Context, route route, header http.Header, body []byte) (*http.Response, error) {
	target := p.base.JoinPath(route.path)
	if route.query != "" {
		target.RawQuery = strings.TrimPrefix(target.RawQuery+"&"+route.query, "&")
	}
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for _, h := range []http.Header{p.header, header} {
		for name, values := range h {
			req.Header[name] = values
		}
	}
	// Not by a Client, which would follow redirects, and take the key with it.
	resp, err := p.transport.RoundTrip(req)
	if err != nil && !connected.Load() {
		err = unsentError{err}
	}
	return resp, err
}

func (p *provider) close() { p.transport.CloseIdleConnections() }
