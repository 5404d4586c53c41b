// Package stream carries observations from samplers to the decider, and assignments the other way, over gRPC.
//
// It owns the wire: conversion between protobuf messages and the values of observe, with every limit on what comes from
// outside; the sampler's side (Server: sessions, epochs, watches, draining); the decider's side (Pool: one session to every
// sampler, reconnected by itself, assignments as differences).
//
// It must not decide who owns a role, keep history, scrape, or know Kubernetes. The sampler serves with it, the decider
// connects with it and takes EncodeObservation for its own ObservationService.
package stream
