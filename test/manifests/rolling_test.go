package manifests

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"gpustack.ai/model-deployment-scaler/dev/controlplane"
	"gpustack.ai/model-deployment-scaler/dev/runner"
	"gpustack.ai/model-deployment-scaler/dev/testcluster"
	"gpustack.ai/model-deployment-scaler/internal/certs/authority"
	"gpustack.ai/model-deployment-scaler/internal/fence"
	"gpustack.ai/model-deployment-scaler/internal/target"
)

const (
	rolling      = "webhook-rolling" // namespace of the objects that are written
	writesPerSec = 50
	maxWrites    = 25 // under way at a time: more would wait for a slow machine until they time out
	secretName   = "webhook-certificates"
)

// site runs the webhooks as they are shipped, and writes what they guard.
type site struct {
	*testing.T
	core   kubernetes.Interface
	client dynamic.Interface
	runner *runner.Runner
	stop   func()
}

func newSite(t *testing.T) *site {
	t.Helper()
	cluster := testcluster.Get(t)
	cluster.Apply(t, "manifests/crds", "dev/crds/modeldeployments.yaml")
	cluster.Kubectl(t, "create", "namespace", rolling)
	install(t, cluster)
	core, err := kubernetes.NewForConfig(cluster.Config(t))
	require.NoError(t, err)
	client, err := dynamic.NewForConfig(cluster.Config(t))
	require.NoError(t, err)
	program, err := controlplane.Binary("webhook")
	require.NoError(t, err)
	r, err := runner.New(runner.Options{
		Config: cluster.Config(t), Binaries: map[string]string{namespace + "/webhook": program}, Dir: t.TempDir(),
		PodCIDR: netip.MustParsePrefix(cluster.Block + ".64.0/20"),
	})
	require.NoError(t, err)
	return &site{T: t, core: core, client: client, runner: r}
}

// start the webhooks; they end with the test at the latest.
func (s *site) start() {
	s.Helper()
	d, err := s.core.AppsV1().Deployments(namespace).Get(s.Context(), "webhook", metav1.GetOptions{})
	require.NoError(s, err)
	service, err := s.core.CoreV1().Services(namespace).Get(s.Context(), "webhook", metav1.GetOptions{})
	require.NoError(s, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.runner.Run(ctx, []*appsv1.Deployment{d}, []*corev1.Service{service}) }()
	s.stop = sync.OnceFunc(func() { cancel(); require.NoError(s, <-ended) })
	s.Cleanup(s.stop)
	s.eventually("both copies are ready", func() bool { return s.ready() == 2 })
}

func (s *site) ready() (n int) {
	for _, p := range s.runner.Pods(nil) {
		if p.Ready {
			n++
		}
	}
	return n
}

// restart sends a signal to a copy and waits until it is back.
func (s *site) restart(name string, sig syscall.Signal) {
	s.Helper()
	pod := func() runner.Pod {
		for _, p := range s.runner.Pods(nil) {
			if p.Name == name {
				return p
			}
		}
		return runner.Pod{}
	}
	before := pod().Restarts
	require.NoError(s, s.runner.Signal(name, sig))
	s.eventually(name+" is back", func() bool { return pod().Restarts > before && s.ready() == 2 })
}

func (s *site) eventually(what string, condition func() bool) {
	s.Helper()
	require.Eventually(s, condition, 3*time.Minute, 50*time.Millisecond, what)
}

func (s *site) secret() *corev1.Secret {
	s.Helper()
	secret, err := s.core.CoreV1().Secrets(namespace).Get(s.Context(), secretName, metav1.GetOptions{})
	require.NoError(s, err)
	return secret
}

// age puts an authority into the Secret that will have passed two thirds of its life at some time, and returns its leaf.
func (s *site) age(due time.Time) (leaf []byte) {
	s.Helper()
	const year = 365 * 24 * time.Hour
	from := due.Add(-year * 2 / 3)
	a, err := authority.New("aged", authority.Validity{From: from, Until: from.Add(year)})
	require.NoError(s, err)
	now := time.Now()
	cert, key, err := a.Leaf([]string{"webhook." + namespace + ".svc"}, authority.Validity{From: now.Add(-time.Hour), Until: now.Add(90 * 24 * time.Hour)}, x509.ExtKeyUsageServerAuth)
	require.NoError(s, err)
	s.patchSecret(map[string]any{"data": map[string][]byte{"ca.crt": a.PEM, "ca.key": a.KeyPEM, "tls.crt": cert, "tls.key": key}})
	return cert
}

func (s *site) patchSecret(patch map[string]any) {
	s.Helper()
	body, err := json.Marshal(patch)
	require.NoError(s, err)
	_, err = s.core.CoreV1().Secrets(namespace).Patch(s.Context(), secretName, types.MergePatchType, body, metav1.PatchOptions{})
	require.NoError(s, err)
}

// touch the Secret, so that the copies look at it now and not when they would by themselves.
func (s *site) touch() {
	s.Helper()
	s.patchSecret(map[string]any{"metadata": map[string]any{"annotations": map[string]string{"touched": time.Now().String()}}})
}

// serving says whether both copies serve this certificate.
func (s *site) serving(cert []byte) bool {
	s.Helper()
	block, _ := pem.Decode(cert)
	for _, p := range s.runner.Pods(nil) {
		var served []byte
		s.eventually(p.Name+" answers", func() bool {
			connection, err := tls.Dial("tcp", p.IP+":8443", &tls.Config{InsecureSkipVerify: true})
			if err != nil {
				return false
			}
			served = connection.ConnectionState().PeerCertificates[0].Raw
			return connection.Close() == nil
		})
		if string(served) != string(block.Bytes) {
			return false
		}
	}
	return true
}

func (s *site) deploy(name string) {
	s.Helper()
	var u unstructured.Unstructured
	require.NoError(s, yaml.Unmarshal([]byte(deployment), &u.Object))
	u.SetName(name)
	_, err := s.client.Resource(resource(target.Resource)).Namespace(rolling).Create(s.Context(), &u, metav1.CreateOptions{})
	require.NoError(s, err)
}

func (s *site) patch(client dynamic.Interface, kind, name, patch string) error {
	_, err := client.Resource(resource(kind)).Namespace(rolling).Patch(context.Background(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// tally of guarded writes.
type tally struct {
	allowed   atomic.Int64 // counts of unbound deployments, as they should be
	refused   atomic.Int64 // counts of a bound one, as they should be
	failed    atomic.Int64 // neither allowed nor refused: the webhook was not asked
	unchecked atomic.Int64 // counts of the bound one that were written
	mu        sync.Mutex
	examples  []string
}

func (c *tally) String() string {
	return fmt.Sprintf("%d allowed, %d refused, %d failed, %d unchecked", c.allowed.Load(), c.refused.Load(), c.failed.Load(), c.unchecked.Load())
}

func (c *tally) fail(err error) {
	c.failed.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.examples) < 3 {
		c.examples = append(c.examples, err.Error())
	}
}

// change a count that anybody may.
func (s *site) change(name string, count int, c *tally) {
	if err := s.patch(s.client, target.Resource, name, counts(count)); err != nil {
		c.fail(err)
		return
	}
	c.allowed.Add(1)
}

// steal a count that nobody may change.
func (s *site) steal(count int, c *tally) {
	err := s.patch(s.client, target.Resource, "bound", counts(count))
	switch {
	case err == nil:
		c.unchecked.Add(1)
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "belong to ModelDeploymentScaler s"):
		c.refused.Add(1)
	default:
		c.fail(err)
	}
}

// write is one or the other, in turn. The counts of a deployment are others every time.
func (s *site) write(i int, c *tally) {
	if i%2 == 0 {
		s.change(fmt.Sprintf("free-%d", i/2%8), 2+i/16%8, c)
		return
	}
	s.steal(3+i%5, c)
}

// during writes at a steady rate, as long as answers do not pile up, while f runs.
func (s *site) during(f func()) *tally {
	c := &tally{}
	var writes sync.WaitGroup
	done := make(chan struct{})
	writes.Go(func() {
		tick := time.NewTicker(time.Second / writesPerSec)
		defer tick.Stop()
		underWay := make(chan struct{}, maxWrites)
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			case <-tick.C:
				underWay <- struct{}{}
				writes.Go(func() { s.write(i, c); <-underWay })
			}
		}
	})
	f()
	close(done)
	writes.Wait()
	return c
}

// The test takes as long as an authority has to settle, and copies to end in order.
func TestGuardedWritesGoOnWhileWebhooksComeAndGo(t *testing.T) {
	s := newSite(t)
	due := time.Now().Add(30 * time.Second)
	old := s.age(due)
	s.start()
	for i := range 8 {
		s.deploy(fmt.Sprintf("free-%d", i))
	}
	s.deploy("bound")
	decider := impersonate(t, testcluster.Get(t), deciderUser, "system:masters")
	binding := fence.Binding{ScalerName: "s", ScalerUID: "u1", Term: 1}
	s.eventually("API servers have noticed what copies are to serve", func() bool {
		return s.patch(decider, target.Resource, "bound", annotation(fence.BindingAnnotation, fmt.Sprintf("%q", binding.String()))) == nil
	})
	require.True(t, s.serving(old))

	began := time.Now()
	orderly := s.during(func() {
		s.restart("webhook-1", syscall.SIGTERM)
		s.eventually("the authority is due", func() bool { return time.Now().After(due.Add(time.Second)) })
		s.touch()
		s.eventually("there is a new authority", func() bool { return strings.Count(string(s.secret().Data["ca.crt"]), "BEGIN") == 2 })
		s.restart("webhook-0", syscall.SIGTERM)
		require.Equal(t, old, s.secret().Data["tls.crt"], "the new authority does not sign before it has settled")
		require.True(t, s.serving(old))
		s.eventually("the new authority signs", func() bool { return string(s.secret().Data["tls.crt"]) != string(old) })
		s.eventually("both copies serve its leaf", func() bool { return s.serving(s.secret().Data["tls.crt"]) })
	})
	t.Logf("rolled and rotated in %s: %s", time.Since(began).Round(time.Second), orderly)
	require.Zero(t, orderly.unchecked.Load())
	require.Zero(t, orderly.failed.Load(), "%v", orderly.examples)
	require.Positive(t, min(orderly.allowed.Load(), orderly.refused.Load()))

	killed := s.during(func() {
		s.restart("webhook-0", syscall.SIGKILL)
		s.restart("webhook-1", syscall.SIGKILL)
	})
	t.Logf("killed, one after the other: %s", killed)
	require.Zero(t, killed.unchecked.Load())
	require.Positive(t, min(killed.allowed.Load(), killed.refused.Load()), "the other copy answers")

	s.stop()
	stopped := &tally{}
	for range 10 {
		s.change("free-0", 100, stopped)
		s.steal(100, stopped)
	}
	t.Logf("stopped: %s", stopped)
	require.EqualValues(t, 20, stopped.failed.Load())
	for _, err := range stopped.examples {
		require.Contains(t, err, "failed calling webhook")
	}
	require.NoError(t, s.patch(s.client, target.Resource, "bound", `{"metadata":{"labels":{"a":"b"}}}`))
	live, err := s.client.Resource(resource(target.Resource)).Namespace(rolling).Get(t.Context(), "bound", metav1.GetOptions{})
	require.NoError(t, err)
	d, err := target.Parse(live)
	require.NoError(t, err)
	require.Equal(t, map[string]int32{"server": 2}, d.Counts(), "after all of this")
}
