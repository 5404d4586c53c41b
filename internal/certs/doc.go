// Package certs reads TLS certificates from files, notices when they change, and makes TLS configurations that always use
// the newest good pair.
//
// A broken new file never replaces a good old pair. Authorities are looked up at every handshake, so a rotated CA counts at
// once and a removed one is forgotten.
package certs
