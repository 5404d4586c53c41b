// Package manifests tests what is under /manifests: it renders each overlay with the library of `kubectl kustomize`, decodes
// every object strictly, checks that the objects agree with each other and with the programs, and evaluates the webhooks'
// match conditions with the API server's code. It has no code of its own.
package manifests
