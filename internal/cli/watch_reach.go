package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"gpustack.ai/model-deployment-scaler/internal/certs"
	"gpustack.ai/model-deployment-scaler/internal/process"
	"gpustack.ai/model-deployment-scaler/internal/stream"
)

// reachOptions say where a decider is, and who calls.
type reachOptions struct {
	address, deciders         string
	serviceName, caFile       string
	tokenFile, serviceAccount string
	insecure                  bool
}

func newReachOptions() reachOptions {
	return reachOptions{deciders: "model-deployment-scaler", serviceName: "decider.model-deployment-scaler.svc"}
}

func (o *reachOptions) add(f *pflag.FlagSet) {
	f.StringVar(&o.address, "address", "", "`host:port` of a decider; any copy will do. Default: a ready decider Pod, through the API server.")
	f.StringVar(&o.deciders, "decider-namespace", o.deciders, "Namespace of the decider Pods.")
	f.StringVar(&o.serviceName, "service-name", o.serviceName, "DNS name in the decider's certificate, and the audience of tokens, as its flag of that name says.")
	f.StringVar(&o.caFile, "ca-file", "", "Authorities (PEM `file`) that the decider's certificate is verified with. Default: the system's.")
	f.StringVar(&o.tokenFile, "token-file", "", "Token for the audience, in a `file` that is read anew for every connection.")
	f.StringVar(&o.serviceAccount, "service-account", "", "Watch as this service account, `[NAMESPACE/]NAME`: you need the right to create its token.")
	f.BoolVar(&o.insecure, "insecure-loopback", false, "Without TLS and credentials, for development: --address must be a loopback one.")
}

func (o *reachOptions) check() error {
	var errs []error
	if o.address != "" {
		if err := process.CheckAddress(o.address); err != nil {
			errs = append(errs, fmt.Errorf("--address: %w", err))
		}
	}
	if o.insecure && !process.IsLoopback(o.address) {
		errs = append(errs, errors.New("--insecure-loopback: --address must be a loopback address"))
	}
	if o.tokenFile != "" && o.serviceAccount != "" {
		errs = append(errs, errors.New("--token-file and --service-account exclude each other"))
	}
	return errors.Join(errs...)
}

// namespaceOrDefault is the one given, else that of the context.
func (c *clusterFlags) namespaceOrDefault() (string, error) {
	if c.namespace != "" {
		return c.namespace, nil
	}
	namespace, _, err := c.loader().Namespace()
	if err != nil {
		return "", fmt.Errorf("finding the namespace: %w", err)
	}
	return namespace, nil
}

func (c *clusterFlags) config() (*rest.Config, error) {
	config, err := c.loader().ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster (give --kubeconfig, or --address with --token-file): %w", err)
	}
	return config, nil
}

// reacher makes connections to a decider.
type reacher struct {
	reachOptions
	cluster   clusterFlags
	namespace string // of service accounts that are named without one

	token      authenticationv1.TokenRequestStatus // of the service account
	mistrusted atomic.Pointer[error]               // why the decider's certificate was not accepted
}

// tokenReserve is how long a token must be good for to be used for another connection.
const tokenReserve = 5 * time.Minute

// reach connects as whom the flags say. What cannot be helped by trying again is a fatalError.
func (r *reacher) reach(ctx context.Context) (connection, error) {
	if why := r.mistrusted.Load(); why != nil {
		return nil, fatalError{fmt.Errorf("%w: give --ca-file, or --service-name", *why)}
	}
	creds, more, err := r.credentials(ctx)
	if err != nil {
		return nil, err
	}
	if r.address == "" {
		return r.forward(ctx, creds, more)
	}
	conn, err := grpc.NewClient("dns:///"+r.address, append(stream.DialOptions(creds), more...)...)
	if err != nil {
		return nil, fatalError{fmt.Errorf("--address: %w", err)}
	}
	return conn, nil
}

func (r *reacher) credentials(ctx context.Context) (credentials.TransportCredentials, []grpc.DialOption, error) {
	if r.insecure {
		return insecure.NewCredentials(), nil, nil
	}
	source, err := certs.Load(certs.Files{CA: r.caFile}, zap.NewNop())
	if err != nil {
		return nil, nil, fatalError{fmt.Errorf("--ca-file: %w", err)}
	}
	config := source.Client(r.serviceName)
	verify := config.VerifyConnection
	config.VerifyConnection = func(state tls.ConnectionState) error {
		err := verify(state)
		if err != nil {
			r.mistrusted.Store(&err)
		}
		return err
	}
	token, err := r.identify(ctx, config)
	if err != nil || token == "" {
		return credentials.NewTLS(config), nil, err
	}
	return credentials.NewTLS(config), []grpc.DialOption{grpc.WithPerRPCCredentials(bearer(token))}, nil
}

// identify finds a token, or puts the kubeconfig's client certificate into config.
func (r *reacher) identify(ctx context.Context, config *tls.Config) (token string, err error) {
	switch {
	case r.tokenFile != "":
		data, err := os.ReadFile(r.tokenFile)
		if err != nil {
			return "", fatalError{fmt.Errorf("--token-file: %w", err)}
		}
		return strings.TrimSpace(string(data)), nil
	case r.serviceAccount != "":
		return r.tokenOf(ctx)
	}
	cluster, err := r.cluster.config()
	if err != nil {
		return "", fatalError{err}
	}
	own, err := rest.TLSConfigFor(cluster)
	if err != nil {
		return "", fatalError{fmt.Errorf("reading the credentials of the kubeconfig: %w", err)}
	}
	if own == nil || own.GetClientCertificate == nil && len(own.Certificates) == 0 {
		return "", fatalError{errors.New("who you are cannot be told: the kubeconfig has no client certificate, and its token is for the API server alone; " +
			"give --service-account NAME or --token-file FILE")}
	}
	config.GetClientCertificate, config.Certificates = own.GetClientCertificate, own.Certificates
	return "", nil
}

// tokenOf asks for a token of the service account that is good for the decider and nobody else; it serves until it is old.
func (r *reacher) tokenOf(ctx context.Context) (string, error) {
	if time.Until(r.token.ExpirationTimestamp.Time) > tokenReserve {
		return r.token.Token, nil
	}
	namespace, account, found := strings.Cut(r.serviceAccount, "/")
	if !found {
		namespace, account = r.namespace, r.serviceAccount
	}
	if namespace == "" || account == "" {
		return "", fatalError{fmt.Errorf("--service-account: %q names no namespace and account: give NAMESPACE/NAME", r.serviceAccount)}
	}
	client, err := r.client()
	if err != nil {
		return "", fatalError{err}
	}
	request, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: []string{r.serviceName}},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", answered(fmt.Errorf("making a token of service account %s/%s: %w", namespace, account, err))
	}
	r.token = request.Status
	return r.token.Token, nil
}

func (r *reacher) client() (kubernetes.Interface, error) {
	config, err := r.cluster.config()
	if err != nil {
		return nil, err
	}
	config.Timeout = answerTimeout
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return client, nil
}

// answered makes what the API server has said no to fatal; one that does not answer is asked again.
func answered(err error) error {
	if apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
		return err
	}
	return fatalError{err}
}

// bearer sends a token, over TLS alone.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

func (b bearer) RequireTransportSecurity() bool { return true }
