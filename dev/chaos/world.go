package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"gpustack.ai/model-deployment-scaler/dev/fleet"
	"gpustack.ai/model-deployment-scaler/dev/harness"
	"gpustack.ai/model-deployment-scaler/dev/invariants"
	"gpustack.ai/model-deployment-scaler/internal/sim"
)

const (
	patience = 3 * time.Minute // with what should happen by itself, on a busy machine
	often    = 100 * time.Millisecond
)

// deciders are what a system runs with.
type deciders string

const (
	quick   deciders = "3 s lease"
	shipped deciders = "as shipped"
	stepped deciders = "clocks 20 min apart" // and the lease of quick
)

// steppedDecider is built with the tag chaos, which gives each Pod's clock a step; nothing else differs.
const steppedDecider = "decider-stepped"

var (
	shortLease = []string{"--lease-duration=3s", "--lease-renew-deadline=2s", "--lease-retry-period=400ms"}
	steps      = []corev1.EnvVar{{Name: "CLOCK_STEP_decider-0", Value: "10m"}, {Name: "CLOCK_STEP_decider-1", Value: "-10m"}}
)

var two = resource.MustParse("2")

// world is the running system, with something between its parts that can be broken.
type world struct {
	*harness.Cluster
	history   *invariants.History
	witness   *witness
	blindness *blindness
	busy      bool
	cancel    context.CancelFunc // ends what stands between the parts

	struck    time.Time // when the fault struck; zero: not yet, or it is none that is timed
	victim    string    // identity of the leader that it struck; empty for others
	lost      []subject // that the sampler it struck observed
	reactions []time.Duration

	mu     sync.Mutex
	links  map[string]*link  // by sampler Pod
	fronts map[string]*front // by decider Pod
}

// build brings the system up with models under way. It runs until ctx ends; end must be called.
func build(ctx context.Context, d deciders) (*world, error) {
	between, cancel := context.WithCancel(ctx)
	w := &world{cancel: cancel, witness: newWitness(), blindness: newBlindness(), links: make(map[string]*link), fronts: make(map[string]*front)}
	o := harness.Options{
		Progress: func(step string) { say("%s", step) }, Durable: true,
		Fleet:    func(o *fleet.Options) { o.World.ColdStart = 2 * time.Second },
		Programs: func(list []*appsv1.Deployment) { arrange(list, d) },
		Server:   func(pod string, real *rest.Config) (*clientcmdapi.Cluster, error) { return w.front(between, pod, real) },
	}
	if d == stepped {
		o.More = []string{steppedDecider}
	}
	var err error
	if w.Cluster, err = harness.Start(ctx, o); err != nil {
		cancel()
		return nil, err
	}
	if err := w.prepare(between); err != nil {
		return nil, errors.Join(err, w.end())
	}
	return w, nil
}

// arrange makes room for links before the samplers, and sets lease and clocks.
func arrange(list []*appsv1.Deployment, kind deciders) {
	for _, d := range list {
		c := &d.Spec.Template.Spec.Containers[0]
		switch {
		case d.Name == "sampler":
			for i := range c.Args {
				c.Args[i] = strings.Replace(c.Args[i], "]:9443", "]:9444", 1)
			}
		case d.Name == "decider" && kind != shipped:
			c.Args = append(c.Args, shortLease...)
		}
		if d.Name == "decider" && kind == stepped {
			c.Image = harness.Namespace + "/" + steppedDecider
			c.Env = append(c.Env, steps...)
		}
	}
}

func (w *world) front(ctx context.Context, pod string, real *rest.Config) (*clientcmdapi.Cluster, error) {
	if !strings.HasPrefix(pod, "decider-") {
		return nil, nil
	}
	f, err := newFront(ctx, real)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fronts[pod] = f
	return f.Cluster, nil
}

func (w *world) prepare(ctx context.Context) error {
	go w.keepLinks(ctx)
	go w.witness.follow(ctx, w)
	_, err := w.Kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating namespace %s: %w", namespace, err)
	}
	w.Fleet.SetQuota("narrow", narrow)
	seen := newAdmissions()
	go seen.watch(ctx, func(name string) []sim.Instance { return w.Fleet.Instances(namespace, name) })
	w.history = invariants.Record(ctx, invariants.Sources{
		Targets: w.Targets(namespace), Scalers: w.Scalers(namespace), Lease: "decider",
		Admitted: seen.all, Blind: w.blindness.at, Floor: w.witness.floor,
		Leases: w.Dynamic.Resource(schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}).Namespace(harness.Namespace),
	})
	w.traffic()
	return w.Apply(ctx, namespace, chat+"---"+chatScaler+"---"+others)
}

// keepLinks puts a link before each sampler until ctx ends.
func (w *world) keepLinks(ctx context.Context) {
	for pause(ctx, often) == nil {
		for _, p := range w.Pods("sampler") {
			if w.link(p.Name) != nil {
				continue
			}
			l, err := newLink(ctx, p.IP+":9443", p.IP+":9444")
			if err != nil {
				say("%v; trying again", err)
				continue
			}
			w.mu.Lock()
			w.links[p.Name] = l
			w.mu.Unlock()
		}
	}
}

func (w *world) link(sampler string) *link {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.links[sampler]
}

func (w *world) end() error {
	defer w.cancel()
	if w.history != nil {
		w.history.Stop()
	}
	return w.Stop()
}

// leader waits until a decider leads that is not the one given, and returns its Pod and identity.
func (w *world) leader(ctx context.Context, not string) (pod, holder string, err error) {
	err = w.await(ctx, "another decider leads", func() bool {
		now, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		var failed error
		holder, failed = w.Holder(now)
		return failed == nil && holder != not
	})
	pod, _, _ = strings.Cut(holder, "_")
	return pod, holder, err
}

// ready waits until all programs are, and all roles are planned on full windows.
func (w *world) ready(ctx context.Context) error {
	return w.await(ctx, "all programs are ready and plan on full windows", func() bool {
		for _, p := range w.Runner.Pods(nil) {
			if !p.Ready {
				return false
			}
		}
		return w.witness.whole()
	})
}

func (w *world) await(ctx context.Context, what string, condition func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !condition() {
		select {
		case <-w.Done():
			return errors.New("a part of the system ended by itself")
		default:
		}
		if pause(ctx, often) != nil {
			return fmt.Errorf("waiting until %s: %w", what, ctx.Err())
		}
	}
	return nil
}

// gone waits until an object is deleted.
func (w *world) gone(ctx context.Context, what string, get func() error) error {
	return w.await(ctx, what+" is gone", func() bool { return apierrors.IsNotFound(get()) })
}

// pause returns an error when ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// anyOf is one of a list.
func anyOf[T any](list []T) T { return list[rand.IntN(len(list))] }

// upTo is a random time below a limit.
func upTo(limit time.Duration) time.Duration { return rand.N(limit) }
