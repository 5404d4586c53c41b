package manifest

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	sigsyaml "sigs.k8s.io/yaml"
)

// Manifest is one object of a file.
type Manifest struct {
	File   string         // its path, or "standard input"
	Object map[string]any // as a client would send it

	node *yaml.Node // the document, for the lines of its fields
	at   string     // path of the object in its document: empty, or "items[0]" of a list
}

// extensions of files that are read of a directory.
var extensions = []string{".yaml", ".yml", ".json"}

// Read reads files, directories with all below them, and the standard input as "-". What could not be read is told in failures,
// one for each file.
func Read(paths []string, in io.Reader) (found []Manifest, failures []error) {
	for _, path := range paths {
		files, err := filesOf(path)
		if err != nil {
			failures = append(failures, err)
		}
		for _, file := range files {
			read, err := readFile(file, in)
			if err != nil {
				failures = append(failures, err)
			}
			found = append(found, read...)
		}
	}
	return found, failures
}

func filesOf(path string) (files []string, err error) {
	if info, err := os.Stat(path); path == "-" || err == nil && !info.IsDir() {
		return []string{path}, nil
	}
	err = filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && file != path:
			return filepath.SkipDir
		case !d.IsDir() && slices.Contains(extensions, filepath.Ext(file)):
			files = append(files, file)
		}
		return nil
	})
	return files, err
}

func readFile(file string, in io.Reader) (found []Manifest, err error) {
	var data []byte
	if file == "-" {
		file = "standard input"
		data, err = io.ReadAll(in)
	} else {
		data, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, err
	}
	for document := range documentsOf(data) {
		read, err := readDocument(file, document)
		if err != nil {
			return found, fmt.Errorf("reading %s: %w", file, err)
		}
		found = append(found, read...)
	}
	return found, nil
}

var documentEnd = regexp.MustCompile(`(?m)^---[ \t]*(#.*)?\r?$`)

// documentsOf splits a file. Each document keeps the lines before it as empty ones, so that parsers count from the top.
func documentsOf(data []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
		from, above := 0, 0
		for _, end := range append(documentEnd.FindAllIndex(data, -1), []int{len(data), len(data)}) {
			document := data[from:end[0]]
			if !yield(append(bytes.Repeat([]byte("\n"), above), document...)) {
				return
			}
			above += bytes.Count(data[from:end[1]], []byte("\n"))
			from = end[1]
		}
	}
}

// readDocument reads the values as kubectl does, strictly, and the lines beside them.
func readDocument(file string, document []byte) ([]Manifest, error) {
	encoded, err := sigsyaml.YAMLToJSONStrict(document)
	if err != nil {
		return nil, err
	}
	var value any
	if err := utiljson.Unmarshal(encoded, &value); err != nil {
		return nil, err
	}
	var node yaml.Node
	if err := yaml.Unmarshal(document, &node); err != nil {
		return nil, err
	}
	object, is := value.(map[string]any)
	if !is {
		return nil, nil // an empty document, or nothing of Kubernetes
	}
	return listed(Manifest{File: file, Object: object, node: &node}), nil
}

// listed takes a list apart.
func listed(m Manifest) (found []Manifest) {
	kind, _ := m.Object["kind"].(string)
	items, is := m.Object["items"].([]any)
	if !is || !strings.HasSuffix(kind, "List") {
		return []Manifest{m}
	}
	for i, item := range items {
		if object, is := item.(map[string]any); is {
			found = append(found, Manifest{File: m.File, Object: object, node: m.node, at: fmt.Sprintf("items[%d]", i)})
		}
	}
	return found
}

// Text is the string at a path; empty when there is none.
func (m *Manifest) Text(path ...string) string {
	var at any = m.Object
	for _, key := range path {
		fields, _ := at.(map[string]any)
		at = fields[key]
	}
	text, _ := at.(string)
	return text
}
