package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	observationv1 "gpustack.ai/model-deployment-scaler/api/proto/modelscaler/observation/v1"
	workerv1 "gpustack.ai/model-deployment-scaler/api/worker/v1"
	"gpustack.ai/model-deployment-scaler/dev/harness"
	"gpustack.ai/model-deployment-scaler/dev/runner"
)

const serviceName = "decider." + harness.Namespace + ".svc"

// viewer makes a service account that may watch scalers of the stage's namespace, and gives a token for the audience; an
// empty one is the API server's.
func (s *stage) viewer(name, audience string) string {
	s.t.Helper()
	require.NoError(s.t, s.Apply(s.t.Context(), s.namespace, fmt.Sprintf(`
apiVersion: v1
kind: ServiceAccount
metadata: {name: %[1]s}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: model-deployment-scaler-view}
subjects: [{kind: ServiceAccount, name: %[1]s, namespace: %[2]s}]
`, name, s.namespace)))
	request := &authenticationv1.TokenRequest{}
	if audience != "" {
		request.Spec.Audiences = []string{audience}
	}
	answer, err := s.Kube.CoreV1().ServiceAccounts(s.namespace).CreateToken(s.t.Context(), name, request, metav1.CreateOptions{})
	require.NoError(s.t, err)
	return answer.Status.Token
}

// authority is the one that the decider's certificate is of, as whoever may read the Secret has it.
func (s *stage) authority() []byte {
	s.t.Helper()
	secret, err := s.Kube.CoreV1().Secrets(harness.Namespace).Get(s.t.Context(), "decider-tls", metav1.GetOptions{})
	require.NoError(s.t, err)
	return secret.Data["ca.crt"]
}

// file of the test's own.
func (s *stage) file(name string, data []byte) string {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), name)
	require.NoError(s.t, os.WriteFile(path, data, 0o600))
	return path
}

func grpcAddress(p runner.Pod) string { return p.IP + ":9443" }

// call connects to a decider over TLS, without credentials.
func (s *stage) call(p runner.Pod) *grpc.ClientConn {
	s.t.Helper()
	roots := x509.NewCertPool()
	require.True(s.t, roots.AppendCertsFromPEM(s.authority()))
	conn, err := grpc.NewClient("passthrough:///"+grpcAddress(p), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: serviceName})))
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (s *stage) with(token string) context.Context {
	if token == "" {
		return s.t.Context()
	}
	return metadata.AppendToOutgoingContext(s.t.Context(), "authorization", "Bearer "+token)
}

// deciders are the leader's Pod and the others, once one leads.
func (s *stage) deciders() (leader runner.Pod, others []runner.Pod) {
	s.t.Helper()
	s.eventually("a decider leads", func() bool {
		name, err := s.Leader(s.t.Context())
		leader, others = runner.Pod{}, nil
		for _, p := range s.Pods("decider") {
			if p.Name == name {
				leader = p
			} else {
				others = append(others, p)
			}
		}
		return err == nil && leader.Name != ""
	})
	return leader, others
}

// Not parallel: other tests kill the leader.
func TestObservations(t *testing.T) {
	s := newStage(t)
	s.deploy("chat", "vLLM", 1, quiet)
	s.scale(policy{name: "chat", target: "chat", mode: workerv1.ModeShadow, min: 1, max: 3})
	s.reports("chat", workerv1.ConditionMetricsReady, metav1.ConditionTrue, workerv1.ReasonObserved)
	t.Run("are for who may watch", s.in((*stage).observationsAreForWhoMayWatch))
	t.Run("are not for a sampler's certificate", s.in((*stage).theCertificateOfASamplerOpensNothing))
	t.Run("explain themselves by reflection", s.in((*stage).theServiceExplainsItselfByReflection))
	t.Run("are read by the Go client of the docs", s.in((*stage).theGoClientOfTheDocsRuns))
}

// in is a part of a test, on the same stage.
func (s *stage) in(part func(*stage, *testing.T)) func(*testing.T) {
	return func(t *testing.T) {
		here := *s
		here.t = t
		part(&here, t)
	}
}

func (s *stage) observationsAreForWhoMayWatch(t *testing.T) {
	other := newStage(t)
	right, wrong, api := s.viewer("right", serviceName), s.viewer("wrong", "other.svc"), s.viewer("api", "")
	s.eventually("the right is in force, at every copy", func() bool {
		leader, others := s.deciders()
		return !slices.ContainsFunc(append(others, leader), func(p runner.Pod) bool {
			_, err := s.list(p, right, s.namespace)
			return err != nil
		})
	})
	leader, standby := s.deciders()
	for title, pod := range map[string]runner.Pod{"the leader": leader, "a standby": standby[0]} {
		for name, row := range map[string]struct {
			token, namespace string
			code             codes.Code
			words, reason    string
		}{
			"a token for this service":              {right, s.namespace, codes.OK, "", ""},
			"the same token elsewhere":              {right, other.namespace, codes.PermissionDenied, "may not watch modeldeploymentscalers.worker.gpustack.ai in namespace " + other.namespace, "forbidden"},
			"the same token everywhere":             {right, "", codes.PermissionDenied, "in all namespaces", "forbidden"},
			"a token for another service":           {wrong, s.namespace, codes.Unauthenticated, "--audience " + serviceName, "token"},
			"a token for the API server":            {api, s.namespace, codes.Unauthenticated, "the token is not accepted", "token"},
			"nobody":                                {"", s.namespace, codes.Unauthenticated, "who calls is not known", "anonymous"},
			"a token that the API server never saw": {"garbage", s.namespace, codes.Unauthenticated, "the token is not accepted", "token"},
		} {
			t.Run(name+" at "+title, func(t *testing.T) {
				before, _ := s.metric(pod, "mds_observations_refused_total", map[string]string{"reason": row.reason})
				answer, err := s.list(pod, row.token, row.namespace)
				require.Equal(t, row.code, status.Code(err), err)
				if row.code != codes.OK {
					require.ErrorContains(t, err, row.words)
					after, _ := s.metric(pod, "mds_observations_refused_total", map[string]string{"reason": row.reason})
					require.Greater(t, after, before)
					return
				}
				require.Len(t, answer.GetObservations(), 1)
				require.Equal(t, "chat", answer.GetObservations()[0].GetScaler())
				require.Contains(t, answer.GetLeader(), leader.Name)
				if pod.Name == leader.Name {
					require.Empty(t, answer.GetForwardedBy())
				} else {
					require.Contains(t, answer.GetForwardedBy(), pod.Name)
				}
			})
		}
	}
}

func (s *stage) list(p runner.Pod, token, namespace string) (*observationv1.ObservationServiceListResponse, error) {
	return observationv1.NewObservationServiceClient(s.call(p)).List(s.with(token), &observationv1.ObservationServiceListRequest{
		Selector: &observationv1.ObservationSelector{Namespace: namespace},
	})
}

// A sampler's certificate is of the same authority as a decider's: it must not be taken for one.
func (s *stage) theCertificateOfASamplerOpensNothing(t *testing.T) {
	leader, _ := s.deciders()
	for name, code := range map[string]codes.Code{"sampler": codes.Unauthenticated, "decider": codes.OK} {
		secret, err := s.Kube.CoreV1().Secrets(harness.Namespace).Get(t.Context(), name+"-tls", metav1.GetOptions{})
		require.NoError(t, err)
		pair, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
		require.NoError(t, err)
		roots := x509.NewCertPool()
		require.True(t, roots.AppendCertsFromPEM(s.authority()))
		conn, err := grpc.NewClient("passthrough:///"+grpcAddress(leader), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
			RootCAs: roots, ServerName: serviceName, Certificates: []tls.Certificate{pair},
		})))
		require.NoError(t, err)
		defer conn.Close()
		_, err = observationv1.NewObservationServiceClient(conn).List(t.Context(), &observationv1.ObservationServiceListRequest{})
		require.Equal(t, code, status.Code(err), "%s: %v", name, err)
	}
}

// What grpcurl does with the command of docs/observations.md: it learns the messages by reflection, and reads JSON.
func (s *stage) theServiceExplainsItselfByReflection(t *testing.T) {
	token := s.viewer("viewer", serviceName)
	leader, _ := s.deciders()
	conn := s.call(leader)
	health, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{Service: observationv1.ObservationService_ServiceDesc.ServiceName})
	require.NoError(t, err)
	require.Equal(t, healthv1.HealthCheckResponse_SERVING, health.GetStatus())

	watch := s.methodByReflection(conn, token, "modelscaler.observation.v1.ObservationService", "Watch")
	request := dynamicpb.NewMessage(watch.Input())
	require.NoError(t, protojson.Unmarshal([]byte(fmt.Sprintf(`{"selector": {"namespace": %q, "scaler": "chat"}}`, s.namespace)), request))
	s.eventually("the right is in force, and the snapshot comes", func() bool {
		stream, err := conn.NewStream(s.with(token), &grpc.StreamDesc{ServerStreams: true}, "/modelscaler.observation.v1.ObservationService/Watch")
		require.NoError(t, err)
		require.NoError(t, stream.SendMsg(request))
		require.NoError(t, stream.CloseSend())
		m := dynamicpb.NewMessage(watch.Output())
		if stream.RecvMsg(m) != nil {
			return false
		}
		text, err := protojson.Marshal(m)
		require.NoError(t, err)
		require.Contains(t, string(text), `"chat"`)
		return true
	})
}

// methodByReflection learns a method from the server alone.
func (s *stage) methodByReflection(conn *grpc.ClientConn, token, service, method string) protoreflect.MethodDescriptor {
	s.t.Helper()
	stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(s.with(token))
	require.NoError(s.t, err)
	require.NoError(s.t, stream.Send(&reflectionv1.ServerReflectionRequest{
		MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service},
	}))
	answer, err := stream.Recv()
	require.NoError(s.t, err)
	set := &descriptorpb.FileDescriptorSet{}
	for _, file := range answer.GetFileDescriptorResponse().GetFileDescriptorProto() {
		d := &descriptorpb.FileDescriptorProto{}
		require.NoError(s.t, proto.Unmarshal(file, d))
		set.File = append(set.File, d)
	}
	files, err := protodesc.NewFiles(set)
	require.NoError(s.t, err)
	return find(s.t, files, service).Methods().ByName(protoreflect.Name(method))
}

func find(t *testing.T, files *protoregistry.Files, service string) protoreflect.ServiceDescriptor {
	t.Helper()
	d, err := files.FindDescriptorByName(protoreflect.FullName(service))
	require.NoError(t, err)
	return d.(protoreflect.ServiceDescriptor)
}
