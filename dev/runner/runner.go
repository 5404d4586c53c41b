package runner

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Options of a Runner.
type Options struct {
	// Config reaches the API server with the rights of a cluster administrator.
	Config *rest.Config
	// Binaries by image, without the tag: the program that stands for it.
	Binaries map[string]string
	// PodCIDR is a loopback range from which Pods get their addresses.
	PodCIDR netip.Prefix
	// Server gives the API server for the kubeconfig of a Pod; without it, and where it gives nil, that of Config.
	Server func(pod string, real *rest.Config) (*clientcmdapi.Cluster, error)
	// Dir takes logs (DIR/logs/POD.log), and volumes and kubeconfigs, which are removed at the end.
	Dir string
}

func (o Options) server(pod string) (*clientcmdapi.Cluster, error) {
	if o.Server == nil {
		return nil, nil
	}
	return o.Server(pod, o.Config)
}

// Runner runs the Pods of Deployments as processes.
type Runner struct {
	o      Options
	client kubernetes.Interface

	mu    sync.Mutex
	next  netip.Addr     // address of the next Pod
	index map[string]int // of the next Pod of a Deployment, by its name
	pods  []*pod         // as created
	spawn func(*pod)     // runs a Pod with the others; nil before Run
}

// New makes a runner; Run starts it.
func New(o Options) (*Runner, error) {
	client, err := kubernetes.NewForConfig(o.Config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	for _, dir := range []string{"logs", "pods"} {
		if err := os.MkdirAll(filepath.Join(o.Dir, dir), 0o700); err != nil {
			return nil, fmt.Errorf("making the runner's folder: %w", err)
		}
	}
	return &Runner{o: o, client: client, next: o.PodCIDR.Masked().Addr().Next(), index: make(map[string]int)}, nil
}

// Run starts everything and returns when ctx ends and all processes have ended and their Pods are deleted.
func (r *Runner) Run(ctx context.Context, deployments []*appsv1.Deployment, services []*corev1.Service) error {
	g, ctx := errgroup.WithContext(ctx)
	if err := r.start(ctx, g, deployments); err != nil {
		g.Go(func() error { return err }) // what runs already ends with it
	}
	for _, s := range services {
		g.Go(func() error { return r.proxy(ctx, s) })
	}
	return g.Wait()
}

func (r *Runner) start(ctx context.Context, g *errgroup.Group, deployments []*appsv1.Deployment) error {
	r.mu.Lock()
	r.spawn = func(p *pod) {
		ctx, cancel := context.WithCancel(ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		p.stop, r.pods = cancel, append(r.pods, p)
		g.Go(func() error {
			defer r.forget(p)
			return p.run(ctx)
		})
	}
	r.mu.Unlock()
	for _, d := range deployments {
		for range replicas(d) {
			if _, err := r.add(ctx, d); err != nil {
				return err
			}
		}
	}
	return nil
}

// add a Pod of a Deployment to those that run.
func (r *Runner) add(ctx context.Context, d *appsv1.Deployment) (*pod, error) {
	p, err := r.newPod(d)
	if err != nil {
		return nil, err
	}
	if err := r.create(ctx, p); err != nil {
		return nil, err
	}
	r.spawn(p)
	return p, nil
}

// Replace rolls one Pod as its Deployment does with maxSurge 1: another one is started, under a name and an address of its own,
// and when that is ready the old one ends in order.
func (r *Runner) Replace(ctx context.Context, name string) error {
	if err := r.Surge(ctx, name); err != nil {
		return err
	}
	return r.Retire(ctx, name)
}

// Surge starts another Pod beside one of the same Deployment, and waits until it is ready.
func (r *Runner) Surge(ctx context.Context, name string) error {
	beside := r.named(name)
	if len(beside) == 0 {
		return fmt.Errorf("adding to pod %s: the runner has no such pod", name)
	}
	fresh, err := r.add(ctx, beside[0].deployment)
	if err != nil {
		return err
	}
	if err := until(ctx, func() bool { return fresh.view().Ready }); err != nil {
		return fmt.Errorf("waiting until pod %s is ready: %w", fresh.object.Name, err)
	}
	return nil
}

// Retire ends a Pod in order, and waits until it is gone.
func (r *Runner) Retire(ctx context.Context, name string) error {
	for _, p := range r.named(name) {
		p.stop()
	}
	return until(ctx, func() bool { return len(r.named(name)) == 0 })
}

// until a condition holds, or ctx ends.
func until(ctx context.Context, condition func() bool) error {
	ctx, done := context.WithCancel(ctx)
	defer done()
	held := false
	_ = every(ctx, probePeriod, func() { // which ends with ctx alone
		if held = condition(); held {
			done()
		}
	})
	if !held {
		return ctx.Err()
	}
	return nil
}

func (r *Runner) named(name string) []*pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.pods), func(p *pod) bool { return p.object.Name != name })
}

// forget a Pod that has ended.
func (r *Runner) forget(p *pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods = slices.DeleteFunc(r.pods, func(other *pod) bool { return other == p })
}

func replicas(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

// Pod is a Pod that the runner runs.
type Pod struct {
	Namespace, Name, IP string
	Labels              map[string]string
	Ready               bool
	Restarts            int32
	// LogFile holds what its program printed, all restarts together.
	LogFile string
}

// Pods lists the Pods that carry the labels.
func (r *Runner) Pods(labels map[string]string) []Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Pod
	for _, p := range r.pods {
		if v := p.view(); carries(v.Labels, labels) {
			out = append(out, v)
		}
	}
	return out
}

// Signal sends a signal to the program of a Pod, SIGKILL for example; a program that dies is started again.
func (r *Runner) Signal(name string, sig os.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pods {
		if p.object.Name == name {
			return p.signal(sig)
		}
	}
	return fmt.Errorf("signalling pod %s: the runner has no such pod", name)
}

// newPod makes the Pod object of one replica; run creates it.
func (r *Runner) newPod(d *appsv1.Deployment) (*pod, error) {
	if len(d.Spec.Template.Spec.Containers) != 1 {
		return nil, fmt.Errorf("running deployment %s: it has %d containers, the runner can run one", d.Name, len(d.Spec.Template.Spec.Containers))
	}
	image := imageName(d.Spec.Template.Spec.Containers[0].Image)
	binary, ok := r.o.Binaries[image]
	if !ok {
		return nil, fmt.Errorf("running deployment %s: no program is known for image %s", d.Name, image)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &pod{runner: r, deployment: d, binary: binary, ip: r.next.String(), object: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d", d.Name, r.index[d.Name]), Namespace: d.Namespace,
			Labels: d.Spec.Template.Labels, Annotations: d.Spec.Template.Annotations,
		},
		Spec: *d.Spec.Template.Spec.DeepCopy(),
	}}
	p.object.Spec.NodeName = "local"
	r.next = r.next.Next()
	r.index[d.Name]++
	return p, nil
}

// create makes the Pod object; what an earlier run left behind under its name is replaced. From here on p.object is not
// changed any more.
func (r *Runner) create(ctx context.Context, p *pod) error {
	p.delete(ctx)
	created, err := r.client.CoreV1().Pods(p.object.Namespace).Create(ctx, p.object, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating pod %s/%s: %w", p.object.Namespace, p.object.Name, err)
	}
	p.object = created
	return nil
}

func carries(have, want map[string]string) bool {
	for k, v := range want {
		if have[k] != v {
			return false
		}
	}
	return true
}
