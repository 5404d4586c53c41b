package manifest

import (
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
)

var pathStep = regexp.MustCompile(`\[([^]]*)\]|[^.\[\]]+`)

// Line of a field, given as "spec.roles[0].name"; of what encloses it when it is not there.
func (m *Manifest) Line(path string) int {
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
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(of.Content) {
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
