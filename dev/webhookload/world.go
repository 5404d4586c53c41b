package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/clientcmd"

	"gpustack.ai/model-deployment-scaler/dev/controlplane"
	"gpustack.ai/model-deployment-scaler/internal/certs/certstest"
	"gpustack.ai/model-deployment-scaler/internal/fence"
)

const (
	deciderUser = "system:serviceaccount:default:decider"
	patience    = 30 * time.Second
)

// world is an API server with what the webhook reads.
type world struct {
	dir, kubeconfig string
	client          dynamic.Interface
	leases          coordination.LeaseInterface
	epoch           fence.Epoch
}

// newWorld starts an API server, which g stops, with the definitions and a leader's Lease.
func newWorld(ctx context.Context, g *errgroup.Group) (*world, error) {
	plane, err := controlplane.Start(ctx)
	if err != nil {
		return nil, err
	}
	w := &world{kubeconfig: plane.Kubeconfig}
	if w.dir, err = os.MkdirTemp("", "webhookload-"); err != nil {
		return nil, fmt.Errorf("making a folder: %w", err)
	}
	g.Go(func() error {
		<-ctx.Done()
		_ = os.RemoveAll(w.dir)
		return plane.Stop()
	})
	for _, args := range [][]string{
		{"apply", "--server-side", "-f", "manifests/crds/worker.gpustack.ai_modeldeploymentscalers.yaml", "-f", "dev/crds/modeldeployments.yaml"},
		{"wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"},
	} {
		if err := w.kubectl(ctx, args...); err != nil {
			return nil, err
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", w.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS = -1 // no waiting of its own in what is compared
	if w.client, err = dynamic.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	w.leases = core.CoordinationV1().Leases("default")
	lease, err := w.leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "decider"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new("one"), LeaseTransitions: new(int32(1))}}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("making a Lease: %w", err)
	}
	w.epoch = fence.Epoch{LeaseUID: string(lease.UID), Transitions: 1}
	return w, nil
}

func (w *world) kubectl(ctx context.Context, args ...string) error {
	root, err := controlplane.Root()
	if err != nil {
		return err
	}
	devcluster, err := controlplane.Binary("devcluster")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, devcluster, append([]string{"kubectl", "--kubeconfig", w.kubeconfig}, args...)...)
	cmd.Dir = root
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("running kubectl %v: %w\n%s", args, err, output)
	}
	return nil
}

// startWebhook runs bin/webhook, which g waits for, until it is ready.
func (w *world) startWebhook(ctx context.Context, g *errgroup.Group, cores int) (*webhook, error) {
	binary, err := controlplane.Binary("webhook")
	if err != nil {
		return nil, err
	}
	authority, err := certstest.NewAuthority("webhookload")
	if err != nil {
		return nil, err
	}
	if err := authority.WriteLeaf(w.dir, "localhost"); err != nil {
		return nil, err
	}
	https, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	admin, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, binary, "--https-address="+https, "--admin-address="+admin, "--kubeconfig="+w.kubeconfig,
		"--tls-cert-file="+filepath.Join(w.dir, "tls.crt"), "--tls-key-file="+filepath.Join(w.dir, "tls.key"),
		"--lease-namespace=default", "--decider-username="+deciderUser)
	logs, err := os.Create(filepath.Join(w.dir, "log")) // a line for each refusal, as in production
	if err != nil {
		return nil, fmt.Errorf("making a log: %w", err)
	}
	cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", cores))
	cmd.Stdout, cmd.Stderr = logs, logs
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 12 * time.Second
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", binary, err)
	}
	g.Go(func() error {
		defer func() { _ = logs.Close() }()
		if err := cmd.Wait(); ctx.Err() == nil {
			return fmt.Errorf("running %s: it ended: %w", binary, err)
		}
		return nil
	})
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority.PEM)
	hook := newWebhook(https, admin, pool)
	return hook, hook.awaitReady(ctx)
}

// awaitReady polls until the webhook says that it is.
func (h *webhook) awaitReady(ctx context.Context) error {
	for deadline := time.Now().Add(patience); ; {
		if answer, err := h.get(ctx, "/readyz"); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("starting the webhook: it was not ready after %s", patience)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("starting the webhook: %w", context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// freeAddress is a loopback address that nobody listens on.
func freeAddress(ctx context.Context) (string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}
