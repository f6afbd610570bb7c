package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// provider is the server that the key belongs to.
type provider struct {
	transport *http.Transport
	base      *url.URL
	header    http.Header // of every request
	done      context.CancelFunc
}

// dial prepares to ask the provider; it connects to nobody yet.
func dial(o Options, f format, warn func(string)) (*provider, error) {
	base, err := url.Parse(o.Upstream)
	switch {
	case err != nil || base.Scheme != "https" && base.Scheme != "http" || base.Hostname() == "":
		return nil, errors.New("the base URL must be https://HOST/PATH") // it may hold what is not for a message
	case base.User != nil:
		return nil, errors.New("the base URL must not hold a name or password")
	}
	base.Fragment = ""
	f.upstream(base)
	p := &provider{base: base, header: http.Header{
		"Content-Type": {"application/json"}, "Accept-Encoding": {"identity"}, "User-Agent": {"git-spot"},
	}}
	dialer := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	if key := o.Key; key != "" {
		if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, errors.New("the key has bytes that no key has")
		}
		f.authorize(p.header, base.Hostname(), key)
		if base.Scheme == "http" {
			switch near(base.Hostname()) {
			case nowhere:
				return nil, fmt.Errorf("the key would go to %s unencrypted: the base URL must begin with https://", base.Host)
			case network:
				warn(fmt.Sprintf("the key goes to %s unencrypted", base.Host))
			}
			// A name is only as near as the address that it has at the time.
			dialer.Control = func(_, address string, _ syscall.RawConn) error {
				if host, _, err := net.SplitHostPort(address); err != nil || near(host) == nowhere {
					return fmt.Errorf("the key would go to %s unencrypted", address)
				}
				return nil
			}
		}
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
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

// The distance of a host.
const (
	machine = iota
	network
	nowhere // known to be near
)

// near says how far a host, a name or an address, is away.
func near(host string) int {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if addr, err := netip.ParseAddr(host); err == nil {
		addr = addr.Unmap()
		switch {
		case addr.IsLoopback():
			return machine
		case addr.IsPrivate() || addr.IsLinkLocalUnicast():
			return network
		}
		return nowhere
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
	return nowhere
}

func (p *provider) ask(ctx context.Context, path string, header http.Header, body []byte) (*http.Response, error) {
	path, query, _ := strings.Cut(path, "?")
	target := endpoint(p.base, path)
	if query != "" {
		if p.base.RawQuery != "" {
			target += "&" + query
		} else {
			target += "?" + query
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, values := range p.header {
		req.Header[name] = values
	}
	for name, values := range header {
		req.Header[name] = values
	}
	// Not a Client: that would follow redirects, and the key with them.
	return p.transport.RoundTrip(req)
}

func (p *provider) close() { p.transport.CloseIdleConnections() }
