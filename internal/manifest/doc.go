// Package manifest reads Kubernetes objects from files as kubectl does, and remembers on which line each field stands.
//
// It must not know what the objects mean. The plugin calls it.
package manifest
