package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// proxy forwards from the cluster IP of a Service to a ready Pod, until ctx ends. A headless Service has nothing to forward.
func (r *Runner) proxy(ctx context.Context, s *corev1.Service) error {
	live, err := r.client.CoreV1().Services(s.Namespace).Get(ctx, s.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading service %s/%s: %w", s.Namespace, s.Name, err)
	}
	if live.Spec.ClusterIP == corev1.ClusterIPNone || len(live.Spec.Selector) == 0 {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, port := range live.Spec.Ports {
		address := net.JoinHostPort(live.Spec.ClusterIP, strconv.Itoa(int(port.Port)))
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if err != nil {
			return fmt.Errorf("listening for service %s/%s: %w", s.Namespace, s.Name, err)
		}
		context.AfterFunc(ctx, func() { _ = listener.Close() })
		g.Go(func() error { return r.accept(ctx, g, listener, live, port) })
	}
	return g.Wait()
}

func (r *Runner) accept(ctx context.Context, g *errgroup.Group, l net.Listener, s *corev1.Service, port corev1.ServicePort) error {
	for {
		client, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("forwarding service %s/%s: %w", s.Namespace, s.Name, err)
		}
		g.Go(func() error {
			r.forward(ctx, client, s, port)
			return nil
		})
	}
}

// forward joins a connection with a ready Pod; without one it is closed, as a Service without endpoints refuses.
func (r *Runner) forward(ctx context.Context, client net.Conn, s *corev1.Service, port corev1.ServicePort) {
	defer client.Close()
	address, ok := r.endpoint(s, port)
	if !ok {
		return
	}
	server, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer server.Close()
	stop := context.AfterFunc(ctx, func() { _, _ = client.Close(), server.Close() })
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(server, client)
		_ = server.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(client, server)
	_ = client.Close()
	<-done
}

// endpoint is some ready Pod of the Service and its target port.
func (r *Runner) endpoint(s *corev1.Service, port corev1.ServicePort) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ready []string
	for _, p := range r.pods {
		if v := p.view(); v.Ready && v.Namespace == s.Namespace && carries(v.Labels, s.Spec.Selector) {
			ready = append(ready, net.JoinHostPort(p.ip, strconv.Itoa(int(portNumber(p.object.Spec.Containers[0], port.TargetPort.String())))))
		}
	}
	if len(ready) == 0 {
		return "", false
	}
	return ready[rand.IntN(len(ready))], true
}
