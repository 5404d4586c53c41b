package runner

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
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

	next netip.Addr // address of the next Pod; Run alone moves it

	mu   sync.Mutex
	pods []*pod // as created
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
	return &Runner{o: o, client: client, next: o.PodCIDR.Masked().Addr().Next()}, nil
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
	for _, d := range deployments {
		for i := range replicas(d) {
			p, err := r.newPod(d, i)
			if err != nil {
				return err
			}
			if err := r.create(ctx, p); err != nil {
				return err
			}
			g.Go(func() error { return p.run(ctx) })
		}
	}
	return nil
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
func (r *Runner) newPod(d *appsv1.Deployment, index int32) (*pod, error) {
	if len(d.Spec.Template.Spec.Containers) != 1 {
		return nil, fmt.Errorf("running deployment %s: it has %d containers, the runner can run one", d.Name, len(d.Spec.Template.Spec.Containers))
	}
	image := imageName(d.Spec.Template.Spec.Containers[0].Image)
	binary, ok := r.o.Binaries[image]
	if !ok {
		return nil, fmt.Errorf("running deployment %s: no program is known for image %s", d.Name, image)
	}
	p := &pod{runner: r, binary: binary, ip: r.next.String(), object: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d", d.Name, index), Namespace: d.Namespace,
			Labels: d.Spec.Template.Labels, Annotations: d.Spec.Template.Annotations,
		},
		Spec: *d.Spec.Template.Spec.DeepCopy(),
	}}
	p.object.Spec.NodeName = "local"
	r.next = r.next.Next()
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
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods = append(r.pods, p)
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
