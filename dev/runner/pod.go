package runner

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// restartDelay is what passes before a program that died is started again.
const restartDelay = time.Second

// pod is one replica: an object in the cluster and a process here.
type pod struct {
	runner     *Runner
	deployment *appsv1.Deployment
	binary     string
	ip         string
	object     *corev1.Pod // as created
	stop       func()      // ends it in order

	mu       sync.Mutex
	process  *os.Process // nil between two lives
	started  metav1.Time
	ready    bool
	restarts int32
}

// run keeps the program of the created Pod running until ctx ends, and deletes the Pod.
func (p *pod) run(ctx context.Context) error {
	defer p.delete(context.WithoutCancel(ctx))
	defer func() { _ = os.RemoveAll(p.dir()) }()
	env, err := p.environment(ctx)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.keepRunning(ctx, env) })
	g.Go(func() error { return p.keepVolumes(ctx) })
	g.Go(func() error { return p.keepStatus(ctx) })
	return g.Wait()
}

// delete is the last act of a kubelet: without grace, because the process has ended.
func (p *pod) delete(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := p.runner.client.CoreV1().Pods(p.object.Namespace).Delete(ctx, p.object.Name, *metav1.NewDeleteOptions(0))
	if err != nil && !apierrors.IsNotFound(err) {
		_, _ = fmt.Fprintf(os.Stderr, "deleting pod %s/%s: %v\n", p.object.Namespace, p.object.Name, err)
	}
}

// keepRunning starts the program again whenever it ends before ctx does.
func (p *pod) keepRunning(ctx context.Context, env []string) error {
	log, err := os.OpenFile(p.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("logging of pod %s: %w", p.object.Name, err)
	}
	defer func() { _ = log.Close() }()
	for {
		if err := p.live(ctx, env, log); err != nil {
			return err
		}
		p.set(func() { p.process, p.ready, p.restarts = nil, false, p.restarts+1 })
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(restartDelay):
		}
	}
}

// live is one life of the program: it ends by itself, or in order when ctx ends.
func (p *pod) live(ctx context.Context, env []string, log *os.File) error {
	container := p.object.Spec.Containers[0]
	cmd := exec.CommandContext(ctx, p.binary, p.arguments(container, env)...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = env, log, log, dieWithParent()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Duration(grace(p.object)) * time.Second
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting pod %s: %w", p.object.Name, err)
	}
	p.set(func() { p.process, p.started = cmd.Process, metav1.Now() })
	_ = cmd.Wait() // however it ended, it is started again
	if ctx.Err() != nil && killed(cmd.ProcessState) {
		return fmt.Errorf("stopping pod %s: its program did not end within %s and was killed; see %s", p.object.Name, cmd.WaitDelay, p.logFile())
	}
	return nil
}

func killed(s *os.ProcessState) bool {
	status, known := s.Sys().(syscall.WaitStatus)
	return known && status.Signaled() && status.Signal() == syscall.SIGKILL
}

func grace(p *corev1.Pod) int64 {
	if p.Spec.TerminationGracePeriodSeconds == nil {
		return 30
	}
	return *p.Spec.TerminationGracePeriodSeconds
}

func (p *pod) signal(sig os.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil {
		return fmt.Errorf("signalling pod %s: its program does not run at the moment", p.object.Name)
	}
	return p.process.Signal(sig)
}

func (p *pod) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *pod) view() Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Pod{Namespace: p.object.Namespace, Name: p.object.Name, IP: p.ip, Labels: p.object.Labels, Ready: p.ready, Restarts: p.restarts, LogFile: p.logFile()}
}

func (p *pod) dir() string     { return filepath.Join(p.runner.o.Dir, "pods", p.object.Name) }
func (p *pod) logFile() string { return filepath.Join(p.runner.o.Dir, "logs", p.object.Name+".log") }
