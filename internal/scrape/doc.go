// Package scrape reads one exposition of one engine Pod: bytes in, an observe.Sample out.
//
// It owns fetching within limits (D5), decoding of what is needed and nothing else (D39), the dialects of the engines as
// tables, and the choice among ranks that repeat each other (D6). It must not compare two scrapes, know roles or keep
// anything of a Pod: that is the matter of windows. The sampler calls Scraper.Scrape; tools that read files call Decoder.Decode.
package scrape
