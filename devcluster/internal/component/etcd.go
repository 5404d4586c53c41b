package component

import (
	"errors"
	"fmt"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

// walSegmentBytes is what etcd reserves on disk twice at start; its default
// of 64 MB is made for clusters that write all day.
const walSegmentBytes = 8 << 20

// startEtcd starts the etcd that the configuration file describes and returns
// when it takes requests. An etcd that fails later ends the process: the API
// server cannot do without it.
func startEtcd(configFile string) (*embed.Etcd, error) {
	wal.SegmentSizeBytes = walSegmentBytes
	config, err := embed.ConfigFromFile(configFile)
	if err != nil {
		return nil, fmt.Errorf("reading etcd configuration %s: %w", configFile, err)
	}
	etcd, err := embed.StartEtcd(config)
	if err != nil {
		return nil, fmt.Errorf("starting etcd: %w", err)
	}
	select {
	case <-etcd.Server.ReadyNotify():
	case err := <-etcd.Err():
		return nil, fmt.Errorf("starting etcd: %w", err)
	case <-etcd.Server.StopNotify():
		return nil, errors.New("starting etcd: it stopped before it was ready")
	}
	go exitOnFailure(etcd)
	return etcd, nil
}

// exitOnFailure returns when etcd is closed, which closes its error channel.
func exitOnFailure(etcd *embed.Etcd) {
	if err, failed := <-etcd.Err(); failed {
		fmt.Fprintln(os.Stderr, "etcd failed:", err)
		os.Exit(1)
	}
}
