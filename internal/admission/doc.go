// Package admission answers the API server's AdmissionReviews: it fills in the defaults of scalers, validates them, and fences
// bound deployments with the table of package fence.
//
// It is an http.Handler and no more: it reads the cluster only through Cluster, keeps no state and has no side effects, so
// that a dry run is judged exactly as the real write. Whatever it cannot read, judge or look up is refused. Package webhook
// puts it together with TLS and a client; Validate also serves who wants to judge a policy offline.
package admission
