package observations

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
	"gpustack.ai/model-deployment-scaler/internal/certs"
	"gpustack.ai/model-deployment-scaler/internal/certs/certstest"
	"gpustack.ai/model-deployment-scaler/internal/stream"
)

// copies are two deciders over real TLS on loopback, and what their clients need.
type copies struct {
	t             *testing.T
	ours, people  *certstest.Authority
	leads         atomic.Pointer[Leader] // as far as both know
	first, second *copied
	registrar     *registrar
}

type copied struct {
	*Server
	address string
	stop    func()
}

func newCopies(t *testing.T) *copies {
	t.Helper()
	c := &copies{t: t, registrar: newRegistrar()}
	c.leads.Store(&Leader{})
	var err error
	c.ours, err = certstest.NewAuthority("ours")
	require.NoError(t, err)
	c.people, err = certstest.NewAuthority("people")
	require.NoError(t, err)
	c.first, c.second = c.start("decider-0"), c.start("decider-1")
	return c
}

// source holds a certificate of our authority.
func (c *copies) source(names ...string) *certs.Source {
	dir := c.t.TempDir()
	require.NoError(c.t, c.ours.WriteLeaf(dir, names...))
	s, err := certs.Load(certs.Files{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), CA: filepath.Join(dir, "ca.crt")}, zap.NewNop())
	require.NoError(c.t, err)
	return s
}

func (c *copies) start(identity string) *copied {
	source := c.source(audience)
	dir := c.t.TempDir()
	require.NoError(c.t, os.WriteFile(filepath.Join(dir, "ca.crt"), c.people.PEM, 0o600))
	people, err := certs.Load(certs.Files{CA: filepath.Join(dir, "ca.crt")}, zap.NewNop())
	require.NoError(c.t, err)
	server := NewServer(Options{
		Identity: identity, Leader: func() Leader { return *c.leads.Load() }, Server: source.ServerAsking(), Client: source.Client(audience),
		Access: &AccessOptions{
			Audience: audience, Reviewer: c.registrar, People: people.VerifyClient,
			Copies: func(chain []*x509.Certificate) error {
				if err := source.VerifyClient(chain); err != nil {
					return err
				}
				return certs.AllowNames(audience)(chain[0])
			},
		},
		Log: zap.NewNop(), Registerer: prometheus.NewRegistry(),
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(c.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, listener) }()
	stopped := false
	stop := func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(c.t, <-ended)
		}
	}
	c.t.Cleanup(stop)
	return &copied{server, listener.Addr().String(), stop}
}

// client with a certificate, or none.
func (c *copies) client(to *copied, cert *tls.Certificate) observationv1.ObservationServiceClient {
	config := c.source("nobody.test.svc").Client(audience)
	config.GetClientCertificate = nil
	if cert != nil {
		config.Certificates = []tls.Certificate{*cert}
	}
	conn, err := grpc.NewClient("passthrough:///"+to.address, stream.DialOptions(credentials.NewTLS(config))...)
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = conn.Close() })
	return observationv1.NewObservationServiceClient(conn)
}

func pair(t *testing.T, cert, key []byte, err error) *tls.Certificate {
	t.Helper()
	require.NoError(t, err)
	p, err := tls.X509KeyPair(cert, key)
	require.NoError(t, err)
	return &p
}

var inA = &observationv1.ObservationSelector{Namespace: "a"}

func TestAStandbyForwardsToTheLeaderAndSaysSo(t *testing.T) {
	c := newCopies(t)
	c.leads.Store(&Leader{"decider-0", c.first.address})
	v := c.first.Lead()
	v.Publish(pass("a", "chat", 2, "server"))
	client := c.client(c.second, nil)

	answer, err := client.List(as(t.Context(), "ann"), &observationv1.ObservationServiceListRequest{Selector: inA})
	require.NoError(t, err)
	require.Equal(t, "decider-0", answer.GetLeader())
	require.Equal(t, "decider-1", answer.GetForwardedBy())
	require.Equal(t, "a/chat/server=2", shortOf(answer.GetObservations()[0]))
	require.Equal(t, 2, c.registrar.questions(), "the standby asked about the caller, and the leader did not once more")

	stream, err := client.Watch(as(t.Context(), "ann"), &observationv1.ObservationServiceWatchRequest{Selector: inA})
	require.NoError(t, err)
	w := &watcher{t, stream}
	require.Equal(t, "a/chat/server=2", w.next())
	require.Equal(t, "complete by decider-0 through decider-1", w.next())
	v.Publish(pass("a", "chat", 3, "server"))
	require.Equal(t, "a/chat/server=3", w.next())
	require.Equal(t, 2, count(c.second.metrics.forwarded))

	_, err = client.List(as(t.Context(), "ann"), &observationv1.ObservationServiceListRequest{Selector: &observationv1.ObservationSelector{Namespace: "b"}})
	require.Equal(t, codes.PermissionDenied, status.Code(err), "who faces the client refuses")
	require.Equal(t, 2, count(c.second.metrics.forwarded))
	_, err = client.List(as(t.Context(), "ann"), &observationv1.ObservationServiceListRequest{Selector: inA, PageToken: "nonsense"})
	require.Equal(t, codes.InvalidArgument, status.Code(err), "a mistake of the caller's stays one")

	c.first.stop()
	w.fails(codes.Unavailable, "the leader decider-0")
	_, err = client.List(as(t.Context(), "ann"), &observationv1.ObservationServiceListRequest{Selector: inA})
	require.Equal(t, codes.Unavailable, status.Code(err))
}

func TestAWatchThatIsForwardedEndsWhenEitherCopyStops(t *testing.T) {
	c := newCopies(t)
	c.leads.Store(&Leader{"decider-0", c.first.address})
	c.first.Lead()
	stream, err := c.client(c.second, nil).Watch(as(t.Context(), "ann"), &observationv1.ObservationServiceWatchRequest{Selector: inA})
	require.NoError(t, err)
	w := &watcher{t, stream}
	require.Equal(t, "complete by decider-0 through decider-1", w.next())
	c.second.stop()
	w.fails(codes.Unavailable, "this copy of the decider stops")
	require.Eventually(t, func() bool { return count(c.first.metrics.watches) == 0 }, 10*time.Second, time.Millisecond)
}

func TestACallIsForwardedOnceAtMost(t *testing.T) {
	c := newCopies(t)
	c.leads.Store(&Leader{"decider-7", c.first.address}) // both believe that the first leads, by another name, and it does not
	client := c.client(c.second, nil)
	_, err := client.List(as(t.Context(), "ann"), &observationv1.ObservationServiceListRequest{Selector: inA})
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorContains(t, err, "decider-0 does not lead")
	require.Zero(t, count(c.first.metrics.forwarded))
}

func TestACopyThatCannotForwardSaysWhy(t *testing.T) {
	c := newCopies(t)
	client := c.client(c.second, nil)
	for name, row := range map[string]struct {
		leader Leader
		want   string
	}{
		"nobody leads":               {Leader{}, "no copy of the decider leads"},
		"it is the leader, not yet":  {Leader{"decider-1", c.second.address}, "about to lead"},
		"the leader is not at home":  {Leader{"decider-9", "127.0.0.1:1"}, "the leader decider-9: Unavailable"},
		"the leader has no address":  {Leader{Identity: "decider-9"}, "set POD_IP"},
		"the leader is somebody new": {Leader{"decider-0", c.first.address}, "decider-0 does not lead"},
	} {
		t.Run(name, func(t *testing.T) {
			c.leads.Store(&row.leader)
			_, err := client.List(as(t.Context(), "ann"), &observationv1.ObservationServiceListRequest{Selector: inA})
			require.Equal(t, codes.Unavailable, status.Code(err))
			require.ErrorContains(t, err, row.want)
		})
	}
}

func TestOnlyACopyIsTrustedToHaveAsked(t *testing.T) {
	c := newCopies(t)
	c.leads.Store(&Leader{"decider-0", c.first.address})
	c.first.Lead()
	leaf := func(a *certstest.Authority, names ...string) *tls.Certificate {
		cert, key, err := a.Leaf(names...)
		return pair(t, cert, key, err)
	}
	person := func(a *certstest.Authority, name string, groups ...string) *tls.Certificate {
		cert, key, err := a.Person(name, groups...)
		return pair(t, cert, key, err)
	}
	for name, row := range map[string]struct {
		cert *tls.Certificate
		code codes.Code
		want string
	}{
		"a copy": {leaf(c.ours, audience), codes.OK, ""},
		"a sampler, whose certificate is of our authority": {leaf(c.ours, "sampler.test.svc"), codes.Unauthenticated, "certificate is not accepted"},
		"a copy of another authority":                      {leaf(c.people, audience), codes.PermissionDenied, "may not watch"}, // as user of that name
		"a user with the right":                            {person(c.people, "root", "people"), codes.OK, ""},
		"a user without":                                   {person(c.people, "ann"), codes.PermissionDenied, "ann may not watch"},
		"a user of our authority":                          {person(c.ours, "root"), codes.Unauthenticated, "unknown authority"},
		"a user without a name":                            {person(c.people, ""), codes.Unauthenticated, "no common name"},
		"nobody":                                           {nil, codes.Unauthenticated, "or a client certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.client(c.first, row.cert).List(t.Context(), &observationv1.ObservationServiceListRequest{})
			require.Equal(t, row.code, status.Code(err), err)
			if row.want != "" {
				require.ErrorContains(t, err, row.want)
			}
		})
	}
}

func TestPlaintextIsForLoopbackAlone(t *testing.T) {
	c := newCopies(t)
	conn, err := grpc.NewClient("passthrough:///"+c.first.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	_, err = observationv1.NewObservationServiceClient(conn).List(t.Context(), &observationv1.ObservationServiceListRequest{})
	require.Equal(t, codes.Unavailable, status.Code(err), "a server with certificates speaks TLS alone")

	for name, row := range map[string]struct {
		address string
		options Options
	}{
		"everywhere, without certificates": {"0.0.0.0:0", Options{}},
		"certificates without rules":       {"127.0.0.1:0", Options{Server: c.source(audience).ServerAsking()}},
		"rules without certificates":       {"127.0.0.1:0", Options{Access: &AccessOptions{}}},
	} {
		t.Run(name, func(t *testing.T) {
			row.options.Log, row.options.Registerer = zap.NewNop(), prometheus.NewRegistry()
			listener, err := net.Listen("tcp", row.address)
			require.NoError(t, err)
			err = NewServer(row.options).Serve(t.Context(), listener)
			require.ErrorContains(t, err, "only a loopback address may be served")
			_, err = listener.Accept()
			require.ErrorIs(t, err, net.ErrClosed)
		})
	}
}
