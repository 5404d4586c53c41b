package sampler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOptionsAreValidatedAllAtOnceByFlag(t *testing.T) {
	valid := func() *Options {
		o := NewOptions()
		o.ShardName, o.InsecureLoopback, o.GRPCAddress = "s", true, "127.0.0.1:0"
		return o
	}
	require.NoError(t, valid().Validate())
	tests := []struct {
		name   string
		change func(*Options)
		flags  []string
	}{
		{"no address", func(o *Options) { o.GRPCAddress = "" }, []string{"--grpc-address", "--insecure-loopback"}},
		{"insecure on every interface", func(o *Options) { o.GRPCAddress = ":9443" }, []string{"--insecure-loopback"}},
		{"secure without files", func(o *Options) { o.InsecureLoopback = false }, []string{"--tls-cert-file"}},
		{"secure for nobody", func(o *Options) { o.InsecureLoopback, o.DeciderIdentity = false, "" }, []string{"--decider-identity"}},
		{"no name", func(o *Options) { o.ShardName = "" }, []string{"--shard-name"}},
		{"no capacity", func(o *Options) { o.CapacityPerSecond = 0 }, []string{"--capacity-scrapes-per-second"}},
		{"numbers out of range", func(o *Options) {
			o.LeaderlessTimeout, o.ScrapeTimeout, o.MaxPodsPerRole = -1, time.Hour, 1025
			o.MaxScrapeBytes.Quantity.Set(0)
		}, []string{"--leaderless-timeout", "--scrape-timeout", "--max-pods-per-role", "--max-scrape-bytes"}},
		{"an unknown mode", func(o *Options) { o.DataParallel = "all" }, []string{"--data-parallel"}},
		{"a certificate for engines without its key", func(o *Options) { o.EngineTLS.Cert = "c" }, []string{"--engine-key-file"}},
		{"a token that would never be sent", func(o *Options) { o.EngineInsecureSkipVerify, o.EngineBearerTokenFile = true, "t" }, []string{"--engine-bearer-token-file"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := valid()
			tt.change(o)
			err := o.Validate()
			for _, flag := range tt.flags {
				require.ErrorContains(t, err, flag)
			}
		})
	}
}

func TestEveryFlagHasHelpAndTheByteLimitReadsUnits(t *testing.T) {
	o := NewOptions()
	for _, g := range o.Groups() {
		require.NotEmpty(t, g.Flags.FlagUsages(), g.Title)
		if f := g.Flags.Lookup("max-scrape-bytes"); f != nil {
			require.NoError(t, f.Value.Set("2Mi"))
		}
	}
	require.EqualValues(t, 2<<20, o.MaxScrapeBytes.Value())
}
