package fleet

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"

	"gpustack.ai/model-deployment-scaler/dev/testcluster"
	"gpustack.ai/model-deployment-scaler/internal/sim"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

func TestMain(m *testing.M) { os.Exit(testcluster.Run(m)) }

const (
	patience = 90 * time.Second
	often    = 50 * time.Millisecond
)

// stage is a namespace of its own with a fleet that plays in it.
type stage struct {
	*Fleet
	t         *testing.T
	kube      kubernetes.Interface
	dynamic   dynamic.Interface
	namespace string
	cut       *atomic.Bool // the fleet's connection to the API server
}

// newStage starts a fleet; it ends with the test, and leaves no goroutine behind.
func newStage(t *testing.T, change func(*Options)) *stage {
	cluster := testcluster.Get(t)
	cluster.Apply(t, "dev/crds/modeldeployments.yaml", "dev/crds/workloads.yaml")
	s := &stage{t: t, cut: new(atomic.Bool)}
	leaks := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, leaks) })
	s.connect(cluster.Config(t))

	o := NewOptions(cuttable(cluster.Config(t), s.cut), podCIDR(t, cluster))
	o.World.AdmissionDelay, o.World.ColdStart, o.World.RetirementStep = 0, 200*time.Millisecond, 300*time.Millisecond
	o.Tick, o.TerminationDelay = 50*time.Millisecond, 100*time.Millisecond
	if change != nil {
		change(&o)
	}
	fleet, err := New(o)
	require.NoError(t, err)
	s.Fleet = fleet
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- fleet.Run(ctx) }()
	t.Cleanup(func() {
		s.clear()
		cancel()
		require.NoError(t, <-done)
		require.Empty(t, fleet.Serving())
	})
	return s
}

func (s *stage) connect(config *rest.Config) {
	dialer := connrotation.NewDialer((&net.Dialer{}).DialContext)
	s.t.Cleanup(dialer.CloseAll)
	config.Dial = dialer.DialContext
	var err error
	s.kube, err = kubernetes.NewForConfig(config)
	require.NoError(s.t, err)
	s.dynamic, err = dynamic.NewForConfig(config)
	require.NoError(s.t, err)
	namespace, err := s.kube.CoreV1().Namespaces().Create(s.t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "fleet-"}}, metav1.CreateOptions{})
	require.NoError(s.t, err)
	s.namespace = namespace.Name
}

// podCIDR of the cluster's block, or one that nobody else uses.
func podCIDR(t *testing.T, cluster *testcluster.Cluster) netip.Prefix {
	block := cluster.Block
	if block == "" {
		block = "127.201"
	}
	prefix, err := netip.ParsePrefix(block + ".128.0/17")
	require.NoError(t, err)
	return prefix
}

// cuttable connections break, and no new ones are made, while cut is set.
func cuttable(config *rest.Config, cut *atomic.Bool) *rest.Config {
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if cut.Load() {
			return nil, fmt.Errorf("the test cut the connection")
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &cuttableConn{Conn: conn, cut: cut}, err
	}
	return config
}

type cuttableConn struct {
	net.Conn
	cut *atomic.Bool
}

func (c *cuttableConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil && c.cut.Load() {
		_ = c.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *cuttableConn) Write(b []byte) (int, error) {
	if c.cut.Load() {
		_ = c.Close()
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

// role of a deployment, for deploy.
type role struct {
	name, kind     string
	replicas, size int64
}

func (s *stage) deploy(deployment, engine string, roles ...role) {
	s.t.Helper()
	list := make([]any, len(roles))
	for n, r := range roles {
		list[n] = map[string]any{"name": r.name, "kind": r.kind, "replicas": r.replicas, "size": max(1, r.size), "instanceType": "a100"}
	}
	_, err := s.dynamic.Resource(deployments).Namespace(s.namespace).Create(s.t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "worker.gpustack.ai/v1", "kind": target.Kind,
		"metadata": map[string]any{"name": deployment},
		"spec":     map[string]any{"engine": map[string]any{"name": engine}, "model": map[string]any{"name": "Qwen/Qwen3-32B"}, "roles": list},
	}}, metav1.CreateOptions{})
	require.NoError(s.t, err)
}

func (s *stage) scale(deployment string, index, replicas int) {
	s.t.Helper()
	patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/roles/%d/replicas","value":%d}]`, index, replicas)
	_, err := s.dynamic.Resource(deployments).Namespace(s.namespace).Patch(s.t.Context(), deployment, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(s.t, err)
}

// look at a deployment and its instances as a scaler would, live.
func (s *stage) look(deployment string) (target.Deployment, []target.Instance) {
	s.t.Helper()
	u, err := s.dynamic.Resource(deployments).Namespace(s.namespace).Get(s.t.Context(), deployment, metav1.GetOptions{})
	require.NoError(s.t, err)
	d, err := target.Parse(u)
	require.NoError(s.t, err)
	pods, err := s.kube.CoreV1().Pods(s.namespace).List(s.t.Context(), metav1.ListOptions{LabelSelector: target.PodSelector(deployment).String()})
	require.NoError(s.t, err)
	list, err := s.dynamic.Resource(workloads).Namespace(s.namespace).List(s.t.Context(), metav1.ListOptions{})
	require.NoError(s.t, err)
	var queue []target.Workload
	for n := range list.Items {
		queue = append(queue, target.ParseWorkload(&list.Items[n]))
	}
	var refs []*corev1.Pod
	for n := range pods.Items {
		refs = append(refs, &pods.Items[n])
	}
	return d, target.Instances(d, refs, queue, true)
}

// becomes waits until the instances of a deployment are as described: "server/0 ready", "server/1 admitted", "server/2 pending".
func (s *stage) becomes(deployment string, want ...string) {
	s.t.Helper()
	var got []string
	require.Eventually(s.t, func() bool {
		got = got[:0]
		_, instances := s.look(deployment)
		for _, i := range instances {
			got = append(got, describe(i))
		}
		return fmt.Sprint(got) == fmt.Sprint(want)
	}, patience, often, "want %v, have %v", want, &got)
}

func describe(i target.Instance) string {
	state := "pending"
	if i.Admission == target.AdmissionGranted {
		state = "admitted"
	}
	if i.Ready {
		state = "ready"
	}
	return fmt.Sprintf("%s/%d %s", i.Role, i.Ordinal, state)
}

// endpoint of an instance that is ready.
func (s *stage) endpoint(deployment string, n int) (pod, url string) {
	s.t.Helper()
	_, instances := s.look(deployment)
	require.Len(s.t, instances[n].Endpoints, 1)
	e := instances[n].Endpoints[0]
	return e.Name, fmt.Sprintf("%s://%s:%d%s", e.Scheme, e.Address, e.Port, e.Path)
}

// clear deletes what the test has left, and waits until nothing runs. The namespace may take its time.
func (s *stage) clear() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(s.t, s.dynamic.Resource(deployments).Namespace(s.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	s.empty(ctx)
	err := s.kube.CoreV1().Namespaces().Delete(ctx, s.namespace, metav1.DeleteOptions{})
	require.True(s.t, err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err), "%v", err)
}

// empty waits until no Pod and no listener is left.
func (s *stage) empty(ctx context.Context) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		pods, err := s.kube.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
		return err == nil && len(pods.Items) == 0 && len(s.Serving()) == 0
	}, patience, often, "Pods or listeners are left")
}

var client = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

var anyTraffic = sim.Constant(4, 600, 100)
