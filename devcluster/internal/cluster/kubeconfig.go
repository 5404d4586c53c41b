package cluster

import (
	"encoding/base64"
	"fmt"
	"os"
)

// kubeconfigFormat takes the server's URL, the authority, and the client's
// certificate and key.
const kubeconfigFormat = ownFileMark + `apiVersion: v1
kind: Config
current-context: devcluster
contexts:
- name: devcluster
  context:
    cluster: devcluster
    user: devcluster
clusters:
- name: devcluster
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: devcluster
  user:
    client-certificate-data: %s
    client-key-data: %s
`

// writeKubeconfig writes the kubeconfig of the named client certificate,
// readable by its owner only.
func writeKubeconfig(path string, b Block, p pki, name string) error {
	var data [3]string
	for i, file := range []string{p.cert(authorityName), p.cert(name), p.key(name)} {
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("writing kubeconfig: %w", err)
		}
		data[i] = base64.StdEncoding.EncodeToString(content)
	}
	text := fmt.Sprintf(kubeconfigFormat, b.url(apiServerPort), data[0], data[1], data[2])
	return writeFile(path, []byte(text), 0o600)
}
