// Package webhook is the webhook process put together: flags, certificates, the live reads that package admission asks for,
// the HTTPS server and its orderly end. cmd/webhook calls Run; nothing imports it.
//
// It is stateless: every copy serves, and none remembers anything about the cluster but which API version answers. It writes
// to the cluster only when it makes its certificates itself: one Secret, and caBundle of its own two configurations. It never
// creates nor deletes either.
package webhook
