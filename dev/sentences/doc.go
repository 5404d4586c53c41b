// Package sentences finds what a package can say to people, in its source: so that a test can hold a golden file of messages
// against the code and fail when a refusal exists that nobody has read.
//
// It owns the search and no messages. It is development code; product code must not import it.
package sentences
