// Package measure runs a program under load and reads its metrics: the common half of the benchmarks of dev/.
//
// It owns the life of a process that is measured and the arithmetic on its metrics. It must not judge them, know what the
// program does, or be part of a product. dev/samplerload,
// dev/fleetload and dev/webhookload call it.
package measure
