//go:build cgo && linux

package gitstate

// libgit2 reads every certificate authority of the system when it starts, for connections that git
// spot never lets it make: that is 4 to 10 ms of each command, several times the rest of its start-up.
// A function of the program stands before one of the same name in a shared library. Where libgit2 is
// built with another TLS library, this one is never called.

/*
int mbedtls_x509_crt_parse_file(void *chain, const char *path) {
	(void)chain;
	(void)path;
	return 0;
}
*/
import "C"
