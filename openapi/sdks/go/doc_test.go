package dueq

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestEveryPublicNameIsDocumented(t *testing.T) {
	// Of the generated code, what users see: models and operations.
	for _, pattern := range []string{"*.go", "webhooks/*.go", "dueqtest/*.go", "api/message.go", "api/model_*.go", "api/api_*.go"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatal(pattern, err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range undocumented(file) {
				t.Errorf("%s: %s", files.Position(name.Pos()), name.Name)
			}
		}
	}
}

// plumbing is what every error has, and what the generated code has for itself.
var plumbing = regexp.MustCompile(`^(Error|Unwrap|(New)?Nullable\w+|ToMap|MarshalJSON|UnmarshalJSON|ApiService)$`)

// undocumented are the exported names of a file, those of fields and methods included, that have no comment.
func undocumented(file *ast.File) (names []*ast.Ident) {
	check := func(name *ast.Ident, comments ...*ast.CommentGroup) {
		for _, comment := range comments {
			if comment != nil {
				return
			}
		}
		if name.IsExported() && !plumbing.MatchString(name.Name) {
			names = append(names, name)
		}
	}
	for _, declaration := range file.Decls {
		switch declared := declaration.(type) {
		case *ast.FuncDecl:
			if declared.Recv == nil || ast.IsExported(receiver(declared)) {
				check(declared.Name, declared.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range declared.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						check(name, declared.Doc, spec.Doc, spec.Comment)
					}
				case *ast.TypeSpec:
					check(spec.Name, declared.Doc, spec.Doc, spec.Comment)
					if made, ok := spec.Type.(*ast.StructType); ok && spec.Name.IsExported() {
						for _, field := range made.Fields.List {
							for _, name := range field.Names {
								check(name, field.Doc, field.Comment)
							}
						}
					}
				}
			}
		}
	}
	return names
}

// receiver is the type that a method is of, unless that is plumbing.
func receiver(method *ast.FuncDecl) string {
	kind := method.Recv.List[0].Type
	if pointer, ok := kind.(*ast.StarExpr); ok {
		kind = pointer.X
	}
	name, ok := kind.(*ast.Ident)
	if !ok || plumbing.MatchString(name.Name) {
		return ""
	}
	return name.Name
}
