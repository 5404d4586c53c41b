package webhook

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// readTimeout bounds one live read, under the time that an admission request has.
const readTimeout = 2 * time.Second

var leases = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}

// cluster makes the live reads of package admission.
type cluster struct {
	client   dynamic.Interface
	versions *versions
	lease    types.NamespacedName
}

func newCluster(config *rest.Config, o *Options) (*cluster, error) {
	config = rest.CopyConfig(config)
	config.Timeout = readTimeout
	config.QPS = -1 // a read here answers a waiting API server, which limits itself
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &cluster{
		client:   client,
		versions: newVersions(found, o.APIVersion),
		lease:    types.NamespacedName{Namespace: o.LeaseNamespace, Name: o.LeaseName},
	}, nil
}

// Target reads a deployment; nil when there is none.
func (c *cluster) Target(ctx context.Context, namespace, name string) (*target.Deployment, error) {
	object, err := c.read(ctx, target.Resource, namespace, name)
	if err != nil || object == nil {
		return nil, err
	}
	deployment, err := target.Parse(object)
	return &deployment, err
}

// Scaler reads a scaler; nil when there is none.
func (c *cluster) Scaler(ctx context.Context, namespace, name string) (*fence.Scaler, error) {
	object, err := c.read(ctx, workerv1.Resource, namespace, name)
	if err != nil || object == nil {
		return nil, err
	}
	uid, _, _ := unstructured.NestedString(object.Object, "status", "binding", "targetUID")
	term, _, _ := unstructured.NestedInt64(object.Object, "status", "binding", "term")
	return &fence.Scaler{UID: string(object.GetUID()), TargetUID: uid, Term: term}, nil
}

// Epoch reads the decider's Lease (D52). A Lease that is not there is an error: nobody leads.
func (c *cluster) Epoch(ctx context.Context) (fence.Epoch, error) {
	lease, err := c.client.Resource(leases).Namespace(c.lease.Namespace).Get(ctx, c.lease.Name, metav1.GetOptions{})
	if err != nil {
		return fence.Epoch{}, fmt.Errorf("reading lease %s: %w", c.lease, err)
	}
	transitions, _, err := unstructured.NestedInt64(lease.Object, "spec", "leaseTransitions")
	if err != nil {
		return fence.Epoch{}, fmt.Errorf("reading lease %s: %w", c.lease, err)
	}
	return fence.Epoch{LeaseUID: string(lease.GetUID()), Transitions: transitions}, nil
}

// read gets an object of our group; nil when it, or its kind, is not there.
func (c *cluster) read(ctx context.Context, resource, namespace, name string) (*unstructured.Unstructured, error) {
	where, served, err := c.versions.of(ctx, resource)
	if err != nil || !served {
		return nil, err
	}
	object, err := c.client.Resource(where).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		return object, nil
	case isAbsent(err):
		return nil, nil
	case apierrors.IsNotFound(err): // the path, not the object: the version is served no longer
		c.versions.forget()
	}
	return nil, fmt.Errorf("reading %s %s/%s: %w", resource, namespace, name, err)
}

// isAbsent says whether the API server looked for the object and found none. A 404 for a path that it does not serve must
// not pass for that: it would make every binding an orphan.
func isAbsent(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
