package sentences

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Sentence is text of the source that people may read.
type Sentence struct {
	At string // file:line
	// Pattern matches it with anything in the place of values.
	Pattern *regexp.Regexp
}

// unheard are calls whose text goes to logs, not to who sent a request, and fields that document.
var unheard = []string{"Debug", "Info", "Warn", "Error", "Help", "MustCompile", "panic"}

// In lists the sentences of the Go files of a directory, without its tests: texts of three words or more, put together from
// literals, as fmt formats them.
func In(dir string) ([]Sentence, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	var found []Sentence
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if isUnheard(n) {
				return false
			}
			text, is := pattern(n)
			if is && len(strings.Fields(strings.ReplaceAll(text, ".*", " "))) >= 3 {
				found = append(found, Sentence{files.Position(n.Pos()).String(), regexp.MustCompile(text)})
			}
			return !is
		})
	}
	return found, nil
}

// Missing are the sentences that a text does not hold, as file:line: pattern.
func Missing(sentences []Sentence, text string) (missing []string) {
	for _, s := range sentences {
		if !s.Pattern.MatchString(text) {
			missing = append(missing, s.At+": "+s.Pattern.String())
		}
	}
	return missing
}

func isUnheard(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ImportSpec:
		return true
	case *ast.Field:
		return n.Tag != nil
	case *ast.KeyValueExpr:
		key, is := n.Key.(*ast.Ident)
		return is && slices.Contains(unheard, key.Name)
	case *ast.CallExpr:
		switch f := n.Fun.(type) {
		case *ast.Ident:
			return slices.Contains(unheard, f.Name)
		case *ast.SelectorExpr:
			on, _ := f.X.(*ast.Ident)
			return slices.Contains(unheard, f.Sel.Name) && (on == nil || on.Name != "http")
		}
	}
	return false
}

// verb is a value in a format.
var verb = regexp.MustCompile(`%[-+# 0-9.\[\]]*[a-zA-Z]`)

// pattern of a text: literals as they are, whatever else is added to them as anything.
func pattern(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(n.Value)
		if n.Kind != token.STRING || err != nil {
			return "", false
		}
		parts := verb.Split(text, -1)
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		return strings.Join(parts, ".*"), true
	case *ast.BinaryExpr:
		left, isLeft := pattern(n.X)
		right, isRight := pattern(n.Y)
		if n.Op != token.ADD || !isLeft && !isRight {
			return "", false
		}
		return orAnything(left, isLeft) + orAnything(right, isRight), true
	case *ast.ParenExpr:
		return pattern(n.X)
	}
	return "", false
}

func orAnything(text string, is bool) string {
	if !is {
		return ".*"
	}
	return text
}
