// Package crd does to a scaler what the API server does by the CustomResourceDefinition, with the API server's own code:
// unknown fields, defaults of the schema, schema, keys of lists, CEL rules. So what is refused on a desk reads as it does in
// the cluster.
//
// It must not know rules of its own: those of the webhook are in package admission, and who wants both calls both. The
// plugin's validate calls it, as do tests of the definition and of the messages.
package crd
