package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"gpustack.ai/model-deployment-scaler/internal/stream"
)

const (
	deciderLabels = "app.kubernetes.io/name=model-deployment-scaler,app.kubernetes.io/component=decider"
	deciderPort   = 9443
)

// forwardedConn is a connection through a port that the API server forwards.
type forwardedConn struct {
	*grpc.ClientConn
	stop  context.CancelFunc
	ended <-chan struct{}
}

// Close the connection and the port.
func (c *forwardedConn) Close() error {
	err := c.ClientConn.Close()
	c.stop()
	<-c.ended
	return err
}

// forward connects to a ready decider through the API server, as kubectl port-forward does.
func (r *reacher) forward(ctx context.Context, creds credentials.TransportCredentials, more []grpc.DialOption) (connection, error) {
	ctx, stop := context.WithCancel(ctx)
	port, ended, err := r.openPort(ctx)
	if err != nil {
		stop()
		return nil, err
	}
	conn, err := grpc.NewClient("passthrough:///127.0.0.1:"+strconv.Itoa(int(port)), append(stream.DialOptions(creds), more...)...)
	if err != nil {
		stop()
		<-ended
		return nil, fatalError{fmt.Errorf("connecting to the forwarded port: %w", err)}
	}
	return &forwardedConn{conn, stop, ended}, nil
}

// openPort opens a local port that leads to a decider until ctx ends; ended is closed when it is closed.
func (r *reacher) openPort(ctx context.Context) (port uint16, ended <-chan struct{}, err error) {
	pod, err := r.readyDecider(ctx)
	if err != nil {
		return 0, nil, err
	}
	dialer, err := r.dialer(pod.Namespace, pod.Name)
	if err != nil {
		return 0, nil, fatalError{fmt.Errorf("forwarding a port: %w", err)}
	}
	opened, over := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.NewOnAddressesForStreamingWithContext(ctx, dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", grpcPort(pod))}, opened, io.Discard, io.Discard)
	if err != nil {
		return 0, nil, fatalError{fmt.Errorf("forwarding a port: %w", err)}
	}
	var failure error
	go func() {
		defer close(over)
		failure = forwarder.ForwardPorts()
	}()
	select {
	case <-opened:
	case <-over:
		return 0, nil, answered(fmt.Errorf("forwarding a port of Pod %s/%s (you need the right to create pods/portforward there; or give --address): %w", pod.Namespace, pod.Name, failure))
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		return 0, nil, fmt.Errorf("forwarding a port of Pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return ports[0].Local, over, nil
}

// dialer prefers WebSockets and falls back to SPDY, as kubectl does.
func (r *reacher) dialer(namespace, pod string) (httpstream.Dialer, error) {
	config, err := r.cluster.config()
	if err != nil {
		return nil, err
	}
	client, err := r.client()
	if err != nil {
		return nil, err
	}
	url := client.CoreV1().RESTClient().Post().Namespace(namespace).Resource("pods").Name(pod).SubResource("portforward").URL()
	sockets, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, config)
	if err != nil {
		return nil, err
	}
	round, upgrader, err := spdy.RoundTripperFor(rest.CopyConfig(config))
	if err != nil {
		return nil, err
	}
	old := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: round}, http.MethodPost, url)
	return portforward.NewFallbackDialerForStreaming(sockets, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

// readyDecider finds a Pod to forward to; any copy will do.
func (r *reacher) readyDecider(ctx context.Context) (*corev1.Pod, error) {
	client, err := r.client()
	if err != nil {
		return nil, fatalError{err}
	}
	pods, err := client.CoreV1().Pods(r.deciders).List(ctx, metav1.ListOptions{LabelSelector: deciderLabels})
	if err != nil {
		return nil, answered(fmt.Errorf("looking for deciders in namespace %s (you need the right to list Pods there; or give --address): %w", r.deciders, err))
	}
	for i := range pods.Items {
		if ready(&pods.Items[i]) {
			return &pods.Items[i], nil
		}
	}
	return nil, fmt.Errorf("none of %d decider Pods in namespace %s is ready (another --decider-namespace?)", len(pods.Items), r.deciders)
}

func ready(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil
		}
	}
	return false
}

// grpcPort is the one that the Pod names so.
func grpcPort(p *corev1.Pod) int32 {
	for _, c := range p.Spec.Containers {
		for _, port := range c.Ports {
			if port.Name == "grpc" {
				return port.ContainerPort
			}
		}
	}
	return deciderPort
}
