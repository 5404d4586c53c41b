package process

import (
	"fmt"
	"os"

	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
)

// newLogger makes the one sink of the process and routes client-go's klog to it. The level can change at run time.
func newLogger(o *options) (*zap.Logger, zap.AtomicLevel, error) {
	level, err := zap.ParseAtomicLevel(o.logLevel)
	if err != nil {
		return nil, level, fmt.Errorf("setting up logs: %w", err)
	}
	encoding := zap.NewProductionEncoderConfig()
	encoding.TimeKey, encoding.EncodeTime = "ts", zapcore.RFC3339NanoTimeEncoder
	encoding.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewJSONEncoder(encoding)
	if o.logFormat == "console" {
		encoding.EncodeLevel = zapcore.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder(encoding)
	}
	log := zap.New(zapcore.NewCore(encoder, zapcore.Lock(os.Stderr), level), zap.ErrorOutput(zapcore.Lock(os.Stderr)))
	klog.SetLogger(zapr.NewLogger(log.Named("client-go")))
	return log, level, nil
}
