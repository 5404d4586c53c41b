// Command webhookload measures what an admission review takes: bin/webhook on one core, called over TLS as API servers call it, 500
// times a second, with an API server behind it (bin/devcluster) that answers its live reads. It is a development tool; product
// code must not import it.
package main
