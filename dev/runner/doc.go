// Package runner starts, on this machine, what rendered Deployments and Services describe. It is a development tool and is
// never part of a shipped image.
//
// A development control plane has no nodes, so nothing starts Pods. The runner plays the parts that are missing, so that
// what is shipped is what is tested: for every replica of a Deployment it creates the Pod object, gives it a loopback
// address of its own, resolves environment, arguments, mounted Secrets and ConfigMaps and the service account's token as a
// kubelet does, starts the program that stands for the image, probes it, reports Pod status, restarts it when it dies, and
// stops it with SIGTERM. For every Service with a cluster IP it listens there and forwards to a ready Pod, as kube-proxy
// does, so that a webhook configuration that names a Service works unmodified.
//
// Not played: scheduling, resource limits, users and file system isolation.
package runner
