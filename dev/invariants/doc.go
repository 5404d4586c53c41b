// Package invariants says of the recorded versions of a target, its scaler and the deciders' Lease whether they keep what no
// fault may break (ARCHITECTURE, "Failure model"): bounds and bands, one step a write, counts with their decision, terms and
// decisions that go forward, one commit a plan, no write by a decider that does not lead, no growth past one that is not admitted,
// no removal from what cannot be observed in full, nor below what was asked for within the scale-down window.
//
// Orderly looks at one target alone, and is what the end-to-end tests hold their targets against. A History watches a whole
// namespace for as long as faults last. It reads the cluster and changes nothing. It is a development tool; product code must
// not import it.
package invariants
