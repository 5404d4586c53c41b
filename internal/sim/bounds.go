package sim

import "gpustack.ai/model-deployment-scaler/internal/observe"

// Bucket bounds of the engines of 2026: seconds for times, tokens for sizes.
var (
	vllmFirstToken = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	vllmPerToken   = []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	vllmRequest    = []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	vllmTokens     = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000}
	vllmIteration  = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}

	sglangFirstToken = []float64{.1, .2, .4, .6, .8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400}
	sglangPerToken   = []float64{.002, .004, .006, .008, .01, .015, .02, .025, .03, .035, .04, .06, .08, .1, .2, .4, .6, .8, 1, 2, 4, 6, 8}
	sglangRequest    = []float64{.1, .2, .4, .6, .8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400, 600, 1200, 1800, 2400}
	sglangTokens     = []float64{100, 300, 500, 700, 1000, 1500, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 10000, 12500, 15000, 17500,
		20000, 22500, 25000, 27500, 30000, 35000, 40000, 60000, 80000, 100000, 200000, 300000, 400000, 600000, 800000, 1e6, 1.1e6}
	sglangQueue = []float64{0, .001, .005, .01, .05, .1, .2, .5, 1, 2, 3, 4, 5, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 100, 200, 300, 400, 500,
		600, 700, 800, 900, 1000, 1200, 1400, 1600, 1800, 2000, 2500, 3000}
	sglangEviction = []float64{.001, .002, .003, .004, .005, .006, .007, .008, .009, .01, .02, .03, .04, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60}
	sglangStage    = geometric(.001, 1.62, 30)
)

func geometric(first, factor float64, n int) []float64 {
	bounds := make([]float64, n)
	for i := range bounds {
		bounds[i] = first
		first *= factor
	}
	return bounds
}

// histograms of one engine; seconds for times, tokens for sizes.
type histograms struct {
	firstToken, perToken, requestPerToken         *Histogram
	endToEnd, queue, inference, prefill, decode   *Histogram
	promptTokens, computedTokens, generatedTokens *Histogram
	iterationTokens                               *Histogram
}

func newHistograms(engine observe.Engine) histograms {
	if engine == observe.SGLang {
		return histogramsOf(sglangFirstToken, sglangPerToken, sglangRequest, sglangQueue, sglangStage, sglangTokens)
	}
	return histogramsOf(vllmFirstToken, vllmPerToken, vllmRequest, vllmRequest, vllmRequest, vllmTokens)
}

func histogramsOf(firstToken, perToken, request, queue, stage, tokens []float64) histograms {
	return histograms{
		firstToken: newHistogram(firstToken), perToken: newHistogram(perToken), requestPerToken: newHistogram(perToken),
		endToEnd: newHistogram(request), queue: newHistogram(queue), inference: newHistogram(request),
		prefill: newHistogram(stage), decode: newHistogram(stage),
		promptTokens: newHistogram(tokens), computedTokens: newHistogram(tokens), generatedTokens: newHistogram(tokens),
		iterationTokens: newHistogram(vllmIteration),
	}
}
