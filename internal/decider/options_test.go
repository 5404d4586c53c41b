package decider

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"gpustack.ai/model-deployment-scaler/internal/certs"
)

func usable() *Options {
	o := NewOptions()
	o.Namespace = "model-deployment-scaler"
	o.TLS.Cert, o.TLS.Key, o.TLS.CA = "tls.crt", "tls.key", "ca.crt"
	return o
}

func TestEverythingThatIsWrongWithTheFlagsIsSaidAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*Options)
		flags []string
	}{
		"nothing is wrong with the defaults and certificates": {func(*Options) {}, nil},
		"nothing is wrong with loopback samplers": {func(o *Options) {
			o.TLS.Cert, o.TLS.Key, o.TLS.CA, o.InsecureLoopback, o.SamplerAddresses = "", "", "", true, []string{"127.0.0.1:9443"}
			o.GRPCAddress = "127.0.0.1:9444"
		}, nil},
		"nothing is wrong without certificates, which are kept then": {func(o *Options) { o.TLS = certs.Files{} }, nil},
		"a part of the certificates":                                 {func(o *Options) { o.TLS.Cert, o.TLS.CA = "", "" }, []string{"--tls-cert-file", "--tls-ca-file"}},
		"certificates that have no time to settle": {func(o *Options) { o.TLS, o.CertificateSettleTime = certs.Files{}, time.Millisecond },
			[]string{"--certificate-settle-time"}},
		"loopback that is none": {func(o *Options) {
			o.InsecureLoopback, o.SamplerAddresses, o.GRPCAddress = true, []string{"10.0.0.1:9443"}, "127.0.0.1:9444"
		}, []string{"--insecure-loopback"}},
		"loopback that serves everywhere": {func(o *Options) { o.InsecureLoopback, o.SamplerAddresses = true, []string{"127.0.0.1:9443"} },
			[]string{"--insecure-loopback"}},
		"loopback without addresses": {func(o *Options) { o.InsecureLoopback, o.GRPCAddress = true, "127.0.0.1:9444" },
			[]string{"--insecure-loopback"}},
		"certificates of users on loopback": {func(o *Options) {
			o.InsecureLoopback, o.SamplerAddresses, o.GRPCAddress, o.ClientCAFile = true, []string{"127.0.0.1:9443"}, "127.0.0.1:9444", "ca.crt"
		}, []string{"--client-ca-file"}},
		"observations served nowhere":             {func(o *Options) { o.GRPCAddress, o.ServiceName = "nowhere", "" }, []string{"--grpc-address", "--service-name"}},
		"a lease that ends before it is given up": {func(o *Options) { o.LeaseDuration = 10 * time.Second }, []string{"--lease-duration"}},
		"a lease in fractions of a second":        {func(o *Options) { o.LeaseDuration = 15500 * time.Millisecond }, []string{"--lease-duration"}},
		"a lease that is never retried":           {func(o *Options) { o.RenewDeadline = time.Second }, []string{"--lease-renew-deadline"}},
		"many things": {func(o *Options) {
			o.APIVersion, o.QPS, o.Burst, o.Workers, o.Namespace, o.LeaseName = "v2", 0, 0, 0, "", ""
			o.SamplerPort, o.SamplerSelector, o.SamplerAddresses, o.RetryPeriod = 0, "a in b", []string{"nowhere"}, 0
		}, []string{"--api-version", "--kube-api-qps", "--kube-api-burst", "--workers", "--namespace", "--lease-name",
			"--sampler-port", "--sampler-selector", "--sampler-addresses", "--lease-retry-period"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := usable()
			c.spoil(o)
			err := o.Validate()
			if len(c.flags) == 0 {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			for _, flag := range c.flags {
				require.Contains(t, err.Error(), flag)
			}
			require.Len(t, strings.Split(err.Error(), "\n"), len(c.flags), "%v", err)
		})
	}
}

func TestEveryFlagHasAHelpTextAndOneGroup(t *testing.T) {
	seen := map[string]bool{}
	for _, group := range usable().Groups() {
		require.NotEmpty(t, group.Title)
		group.Flags.VisitAll(func(f *pflag.Flag) {
			require.False(t, seen[f.Name], f.Name)
			require.True(t, strings.HasSuffix(f.Usage, "."), f.Name)
			seen[f.Name] = true
		})
	}
	require.NotEmpty(t, seen)
}

func TestTwoStartsOfOnePodAreTwoCandidates(t *testing.T) {
	t.Setenv("POD_NAME", "decider-0")
	a, b := NewOptions().identity(), NewOptions().identity()
	require.True(t, strings.HasPrefix(a, "decider-0_"))
	require.NotEqual(t, a, b)
	require.Equal(t, "mine", (&Options{Identity: "mine"}).identity())
}
