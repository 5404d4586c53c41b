package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
)

const (
	// volumePeriod is how soon a changed Secret or ConfigMap reaches the files, where a kubelet takes a minute.
	volumePeriod = time.Second
	tokenSeconds = 24 * 3600
)

// keepVolumes brings changes of Secrets and ConfigMaps to the files until ctx ends. A failed reading is tried again.
func (p *pod) keepVolumes(ctx context.Context) error {
	return every(ctx, volumePeriod, func() { _ = p.writeVolumes(ctx) })
}

// mount writes the volumes, and waits for what is not there yet as a kubelet does: the ConfigMap with the API server's authority
// comes a moment after its namespace.
func (p *pod) mount(ctx context.Context) (err error) {
	waited := until(ctx, func() bool { err = p.writeVolumes(ctx); return !apierrors.IsNotFound(err) })
	return errors.Join(waited, err)
}

// writeVolumes writes what the Pod mounts below its folder.
func (p *pod) writeVolumes(ctx context.Context) error {
	for _, v := range p.object.Spec.Volumes {
		files, err := p.content(ctx, v)
		if err != nil {
			return fmt.Errorf("mounting volume %s of pod %s: %w", v.Name, p.object.Name, err)
		}
		dir := filepath.Join(p.dir(), "volumes", v.Name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("mounting volume %s of pod %s: %w", v.Name, p.object.Name, err)
		}
		for name, data := range files {
			if err := replace(filepath.Join(dir, name), data); err != nil {
				return fmt.Errorf("mounting volume %s of pod %s: %w", v.Name, p.object.Name, err)
			}
		}
	}
	return nil
}

// content reads the volume's source. Of a projected volume that is its Secrets and ConfigMaps: the token in it reaches the
// program through its kubeconfig.
func (p *pod) content(ctx context.Context, v corev1.Volume) (map[string][]byte, error) {
	switch {
	case v.Secret != nil:
		return p.secret(ctx, v.Secret.SecretName)
	case v.ConfigMap != nil:
		return p.configMap(ctx, v.ConfigMap.Name)
	case v.Projected != nil:
		files := map[string][]byte{}
		for _, source := range v.Projected.Sources {
			part, err := p.projection(ctx, source)
			if err != nil {
				return nil, err
			}
			maps.Copy(files, part)
		}
		return files, nil
	case v.EmptyDir != nil:
		return nil, nil
	}
	return nil, errors.New("the runner knows secrets, configMaps, projected volumes and emptyDirs")
}

func (p *pod) projection(ctx context.Context, source corev1.VolumeProjection) (map[string][]byte, error) {
	switch {
	case source.Secret != nil:
		return p.secret(ctx, source.Secret.Name)
	case source.ConfigMap != nil:
		return p.configMap(ctx, source.ConfigMap.Name)
	}
	return nil, nil
}

func (p *pod) secret(ctx context.Context, name string) (map[string][]byte, error) {
	s, err := p.runner.client.CoreV1().Secrets(p.object.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return s.Data, nil
}

func (p *pod) configMap(ctx context.Context, name string) (map[string][]byte, error) {
	c, err := p.runner.client.CoreV1().ConfigMaps(p.object.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for file, text := range c.Data {
		files[file] = []byte(text)
	}
	return files, nil
}

// replace writes a file in one step, and only when it differs: readers never see half of it.
func replace(name string, data []byte) error {
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, data) {
		return nil
	}
	temporary := name + ".new"
	if err := os.WriteFile(temporary, data, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, name)
}

// writeKubeconfig gives the program the API server with a token of its service account.
func (p *pod) writeKubeconfig(ctx context.Context) (string, error) {
	account := p.object.Spec.ServiceAccountName
	token, err := p.runner.client.CoreV1().ServiceAccounts(p.object.Namespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](tokenSeconds)},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("getting a token of service account %s/%s: %w", p.object.Namespace, account, err)
	}
	c := p.runner.o.Config
	config := clientcmdapi.NewConfig()
	config.Clusters["local"] = &clientcmdapi.Cluster{Server: c.Host, CertificateAuthority: c.CAFile, CertificateAuthorityData: c.CAData}
	other, err := p.runner.o.server(p.object.Name)
	if err != nil {
		return "", fmt.Errorf("writing the kubeconfig of pod %s: %w", p.object.Name, err)
	}
	if other != nil {
		config.Clusters["local"] = other
	}
	config.AuthInfos["pod"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts["pod"] = &clientcmdapi.Context{Cluster: "local", AuthInfo: "pod", Namespace: p.object.Namespace}
	config.CurrentContext = "pod"
	name := filepath.Join(p.dir(), "kubeconfig")
	if err := os.MkdirAll(p.dir(), 0o700); err != nil {
		return "", fmt.Errorf("writing the kubeconfig of pod %s: %w", p.object.Name, err)
	}
	if err := clientcmd.WriteToFile(*config, name); err != nil {
		return "", fmt.Errorf("writing the kubeconfig of pod %s: %w", p.object.Name, err)
	}
	return name, nil
}

// every calls f at once and then each period, until ctx ends.
func every(ctx context.Context, period time.Duration, f func()) error {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		f()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
