package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// TestMain plays the binary when asked to, so that the tests see a real process with real signals.
func TestMain(m *testing.M) {
	if os.Getenv("MDS_PLAY_BINARY") != "" {
		os.Exit(Main(playedSpec(os.Getenv("MDS_PLAY_BINARY"))))
	}
	os.Exit(m.Run())
}

func playedSpec(part string) Spec {
	fs := pflag.NewFlagSet("work", pflag.ContinueOnError)
	size := fs.Int("size", 1, "Size of the work.")
	return Spec{
		Name: "worker", Short: "works", Long: "worker works.",
		Groups: []FlagGroup{{Title: "Work", Flags: fs}},
		Validate: func() error {
			if *size < 1 {
				return fmt.Errorf("--size: %d is under 1", *size)
			}
			return nil
		},
		Run: func(ctx context.Context, p *Process) error {
			p.Health.AddLive("loop", func() error { return nil })
			p.Health.AddReady("cache", func() error { return errors.New("not synced") })
			p.Log.Info("working")
			if part == "fails" {
				return errors.New("working: no work found")
			}
			<-ctx.Done()
			if part == "hangs" {
				select {}
			}
			return ctx.Err()
		},
	}
}

// played is the binary under test, running.
type played struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
	url   string
}

func play(t *testing.T, part string, args ...string) *played {
	t.Helper()
	cmd := exec.Command(os.Args[0], append(args, "--admin-address=127.0.0.1:0")...)
	cmd.Env = append(os.Environ(), "MDS_PLAY_BINARY="+part)
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	p := &played{cmd: cmd, lines: bufio.NewScanner(stderr)}
	address := p.logged(t, `serving admin endpoints".*"address":"([^"]+)`)
	p.url = "http://" + address
	return p
}

// logged reads log lines until one matches, and returns its first group.
func (p *played) logged(t *testing.T, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for p.lines.Scan() {
		if m := re.FindStringSubmatch(p.lines.Text()); m != nil {
			return m[len(m)-1]
		}
	}
	t.Fatalf("the process ended without logging %q", pattern)
	return ""
}

func (p *played) request(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, p.url+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

func TestTheAdminEndpointsAnswer(t *testing.T) {
	p := play(t, "works")
	p.logged(t, `"working"`) // its checks are there from then on
	code, body := p.request(t, "GET", "/livez?verbose", "")
	require.Equal(t, 200, code)
	require.Contains(t, body, "[+] loop ok")
	code, body = p.request(t, "GET", "/readyz", "")
	require.Equal(t, 503, code)
	require.Contains(t, body, "[-] cache: not synced")
	code, body = p.request(t, "GET", "/metrics", "")
	require.Equal(t, 200, code)
	require.Contains(t, body, `mds_build_info{program="worker"`)
	code, body = p.request(t, "PUT", "/loglevel", "level=debug")
	require.Equal(t, 200, code)
	require.Contains(t, body, `"debug"`)
	code, _ = p.request(t, "GET", "/debug/pprof/", "")
	require.Equal(t, 404, code, "profiling is off unless asked for")
}

func TestSIGTERMEndsTheProcessOrderly(t *testing.T) {
	p := play(t, "works")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	p.logged(t, `"stopped"`)
	require.NoError(t, p.cmd.Wait())
}

func TestWorkThatIsDoneTheMomentTheSignalComesEndsOrderlyToo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // the signal and the end are both there: which of them is seen first must not matter
		work := make(chan error, 1)
		work <- fmt.Errorf("working: %w", ctx.Err())
		require.NoError(t, await(ctx, func() {}, work))
	}
}

func TestASecondSignalKillsAProcessThatHangs(t *testing.T) {
	p := play(t, "hangs")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	ended := make(chan error, 1)
	go func() { ended <- p.cmd.Wait() }()
	require.Eventually(t, func() bool {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		return len(ended) == 1
	}, shutdownTimeout, 50*time.Millisecond)
	require.ErrorContains(t, <-ended, "signal: terminated")
}

func TestAFailureExitsWithOneAndSaysWhy(t *testing.T) {
	p := play(t, "fails")
	require.Contains(t, p.logged(t, `^worker: (.*)`), "working: no work found")
	require.ErrorContains(t, p.cmd.Wait(), "exit status 1")
}

func TestWrongUsageExitsWithTwoAndNamesEveryFault(t *testing.T) {
	for name, row := range map[string]struct {
		args []string
		want []string
	}{
		"all wrong values at once": {
			[]string{"--size=0", "--log-level=loud", "--log-format=xml", "--admin-address=nowhere"},
			[]string{"--size: 0 is under 1", "--log-level", "--log-format", "--admin-address"},
		},
		"a flag that does not exist": {[]string{"--sizes=1"}, []string{"unknown flag: --sizes"}},
		"an argument":                {[]string{"size"}, []string{`unexpected argument "size"`}},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], row.args...)
			cmd.Env = append(os.Environ(), "MDS_PLAY_BINARY=works")
			out, err := cmd.CombinedOutput()
			require.ErrorContains(t, err, "exit status 2")
			for _, want := range append(row.want, "worker --help") {
				require.Contains(t, string(out), want)
			}
		})
	}
}

func TestHelpGroupsTheFlagsAndVersionSaysWhichBuild(t *testing.T) {
	run := func(arg string) string {
		cmd := exec.Command(os.Args[0], arg)
		cmd.Env = append(os.Environ(), "MDS_PLAY_BINARY=works")
		out, err := cmd.Output()
		require.NoError(t, err)
		return string(out)
	}
	require.Regexp(t, `(?s)Work:\n.*--size.*Process:\n.*--admin-address`, run("--help"))
	require.Regexp(t, `^worker .*go1\.`, run("--version"))
}
