package kube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/kubernetes"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

// FieldManager of every write; a public name (D50).
const FieldManager = "model-deployment-scaler"

// startTimeout bounds the discovery calls that Connect makes.
const startTimeout = 30 * time.Second

// dialTimeout bounds the making of a connection for Leases; on one that is silent for as long, the network is asked.
const dialTimeout = 10 * time.Second

// ErrUnfit is a cluster that the decider cannot work with until somebody changes it; waiting does not help.
var ErrUnfit = errors.New("the cluster does not fit this release")

// Client talks to one cluster in the served version of our API group.
type Client struct {
	Core    kubernetes.Interface
	Dynamic dynamic.Interface
	// Leases have a request budget and a connection of their own: neither many writes nor long lists delay a renewal.
	Leases coordinationv1.LeasesGetter
	// Version of group worker.gpustack.ai that serves both kinds.
	Version string

	scalers rest.Interface
	codec   runtime.ParameterCodec
}

// Scalers is a typed client of the scalers of one namespace; of all namespaces when it is empty.
type Scalers = *gentype.ClientWithList[*workerv1.ModelDeploymentScaler, *workerv1.ModelDeploymentScalerList]

// LoadConfig finds the way to the cluster: the kubeconfig file, without one $KUBECONFIG, else the Pod's service account.
func LoadConfig(kubeconfig string) (*rest.Config, error) {
	// Not kubectl's rules: they would take ~/.kube/config, and what writes counts must be told where.
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig, Precedence: filepath.SplitList(os.Getenv(clientcmd.RecommendedConfigPathEnvVar))}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster (give --kubeconfig, set KUBECONFIG, or run in a Pod): %w", err)
	}
	return config, nil
}

// NewClient makes a client in the given version of our API group; an empty one is found out. It fails with ErrUnfit when the
// scaler's CRD is absent or lacks fields that the decider needs (D49).
func NewClient(ctx context.Context, config *rest.Config, version string) (*Client, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	core, err1 := kubernetes.NewForConfig(config)
	dyn, err2 := dynamic.NewForConfig(config)
	leases, err3 := coordinationv1.NewForConfig(ownConnection(config))
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if err := checkScalerCRD(ctx, dyn); err != nil {
		return nil, err
	}
	candidates := workerv1.Versions
	if version != "" {
		candidates = []string{version}
	}
	version, err := servedVersion(ctx, discovery.ToServerResourcesInterfaceWithContext(core.Discovery()), candidates)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := workerv1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("registering %s: %w", workerv1.GroupName, err)
	}
	scalers, err := scalerREST(config, scheme, version)
	if err != nil {
		return nil, fmt.Errorf("making a client of %s: %w", workerv1.Resource, err)
	}
	return &Client{
		Core: core, Dynamic: dyn, Leases: leases, Version: version,
		scalers: scalers, codec: runtime.NewParameterCodec(scheme),
	}, nil
}

// ownConnection is a config whose clients share no connection with others: transports are shared by what they are made of,
// and this one's dialer is its own.
func ownConnection(config *rest.Config) *rest.Config {
	own := rest.CopyConfig(config)
	if own.Dial == nil {
		own.Dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}).DialContext
	}
	return own
}

// scalerREST speaks JSON in one version of our group; both versions decode into the same Go type.
func scalerREST(config *rest.Config, scheme *runtime.Scheme, version string) (rest.Interface, error) {
	c := rest.CopyConfig(config)
	c.GroupVersion = &schema.GroupVersion{Group: workerv1.GroupName, Version: version}
	c.APIPath = "/apis"
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	return rest.RESTClientFor(c)
}

// Scalers of a namespace.
func (c *Client) Scalers(namespace string) Scalers {
	return gentype.NewClientWithList(workerv1.Resource, c.scalers, c.codec, namespace,
		func() *workerv1.ModelDeploymentScaler { return &workerv1.ModelDeploymentScaler{} },
		func() *workerv1.ModelDeploymentScalerList { return &workerv1.ModelDeploymentScalerList{} })
}

// Targets of a namespace.
func (c *Client) Targets(namespace string) dynamic.ResourceInterface {
	return c.Dynamic.Resource(c.targetResource()).Namespace(namespace)
}

func (c *Client) targetResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: target.GroupName, Version: c.Version, Resource: target.Resource}
}

// resourceLister is the part of discovery that finding a version needs.
type resourceLister interface {
	ServerResourcesForGroupVersionWithContext(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)
}

// servedVersion is the first version that serves both kinds. On clusters of the GPUStack operator v1 is an aggregated API
// that knows the deployments alone, so that this finds the version of the CRDs (D49). It fails with ErrUnfit only when every
// version has answered.
func servedVersion(ctx context.Context, d resourceLister, candidates []string) (string, error) {
	var errs []error
	for _, version := range candidates {
		list, err := d.ServerResourcesForGroupVersionWithContext(ctx, workerv1.GroupName+"/"+version)
		switch {
		case err == nil && serves(list, workerv1.Resource) && serves(list, target.Resource):
			return version, nil
		case err != nil && !apierrors.IsNotFound(err):
			errs = append(errs, fmt.Errorf("asking what %s/%s serves: %w", workerv1.GroupName, version, err))
		}
	}
	if len(errs) > 0 {
		return "", errors.Join(errs...)
	}
	return "", fmt.Errorf("%w: none of the versions %v of %s serves both %s and %s: install both CRDs",
		ErrUnfit, candidates, workerv1.GroupName, workerv1.Resource, target.Resource)
}

func serves(list *metav1.APIResourceList, resource string) bool {
	for _, r := range list.APIResources {
		if r.Name == resource {
			return true
		}
	}
	return false
}

// Unreachable says that the API server did not answer, or only that it cannot now: waiting may help.
func Unreachable(err error) bool {
	if errors.Is(err, ErrUnfit) {
		return false
	}
	return apierrors.ReasonForError(err) == metav1.StatusReasonUnknown || apierrors.IsInternalError(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err)
}
