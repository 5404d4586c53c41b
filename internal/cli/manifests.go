package cli

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	sigsyaml "sigs.k8s.io/yaml"
)

// manifest is one object of a file.
type manifest struct {
	file string
	node *yaml.Node // for the lines of its fields
	at   string     // path of the object in its document: empty, or "items[0]" of a list

	object map[string]any // as a client would send it
}

// manifestExtensions are what is read of a directory, as kubectl does.
var manifestExtensions = []string{".yaml", ".yml", ".json"}

// readManifests reads files, directories with all below them, and the standard input as "-". The error names all that could
// not be read.
func readManifests(paths []string, in io.Reader) (found []manifest, failures []error) {
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
		case !d.IsDir() && slices.Contains(manifestExtensions, filepath.Ext(file)):
			files = append(files, file)
		}
		return nil
	})
	return files, err
}

func readFile(file string, in io.Reader) (found []manifest, err error) {
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
	for _, document := range documentsOf(data) {
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
func documentsOf(data []byte) (documents [][]byte) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	ends := append(documentEnd.FindAllIndex(data, -1), []int{len(data), len(data)})
	from := 0
	for _, end := range ends {
		above := bytes.Repeat([]byte("\n"), bytes.Count(data[:from], []byte("\n")))
		documents = append(documents, append(above, data[from:end[0]]...))
		from = end[1]
	}
	return documents
}

// readDocument reads the values as kubectl does, strictly, and the lines beside them.
func readDocument(file string, document []byte) ([]manifest, error) {
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
	return listed(manifest{file: file, node: &node, object: object}), nil
}

// listed takes a list apart.
func listed(m manifest) (found []manifest) {
	kind, _ := m.object["kind"].(string)
	items, is := m.object["items"].([]any)
	if !is || !strings.HasSuffix(kind, "List") {
		return []manifest{m}
	}
	for i, item := range items {
		if object, is := item.(map[string]any); is {
			found = append(found, manifest{file: m.file, node: m.node, at: fmt.Sprintf("items[%d]", i), object: object})
		}
	}
	return found
}

// text is the string at a path; empty when there is none.
func (m *manifest) text(path ...string) string {
	var at any = m.object
	for _, key := range path {
		fields, _ := at.(map[string]any)
		at = fields[key]
	}
	text, _ := at.(string)
	return text
}

var pathStep = regexp.MustCompile(`\[([^]]*)\]|[^.\[\]]+`)

// line of a field, given as "spec.roles[0].name"; of what encloses it when it is not there.
func (m *manifest) line(path string) int {
	at := m.node.Content[0]
	line := at.Line
	for _, step := range pathStep.FindAllStringSubmatch(m.at+"."+path, -1) {
		key, value := child(at, step[0], step[1])
		if value == nil {
			break
		}
		at, line = value, key.Line
	}
	return line
}

// child of a node by name or, in brackets, by index or name; and the node whose line is the child's: the name's in a map.
func child(of *yaml.Node, name, inBrackets string) (key, value *yaml.Node) {
	if of.Kind == yaml.AliasNode {
		of = of.Alias
	}
	if inBrackets != "" {
		name = inBrackets
	}
	switch of.Kind {
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(name); err == nil && i < len(of.Content) {
			return of.Content[i], of.Content[i]
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(of.Content); i += 2 {
			if of.Content[i].Value == name {
				return of.Content[i], of.Content[i+1]
			}
		}
	}
	return nil, nil
}
