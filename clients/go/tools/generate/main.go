// Generate makes the Go stubs of Leasehold's API: it compiles the proto files and hands them to the plug-ins
// protoc-gen-go and protoc-gen-go-grpc, as protoc does, without needing protoc.
//
// Usage: generate PROTO_FOLDER OUTPUT_FOLDER PLUGIN…
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/pluginpb"
)

// module is cut from the front of the files' names: the output folder is the module's folder.
const module = "github.com/leasehold/leasehold/clients/go"

func main() {
	if len(os.Args) < 4 {
		fail(errors.New("usage: generate PROTO_FOLDER OUTPUT_FOLDER PLUGIN…"))
	}
	request, err := compile(os.Args[1])
	fail(err)
	for _, plugin := range os.Args[3:] {
		fail(run(plugin, request, os.Args[2]))
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// compile reads all proto files of a folder, with their comments.
func compile(folder string) ([]byte, error) {
	var names []string
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".proto") {
			name, _ := filepath.Rel(folder, path)
			names = append(names, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
			ImportPaths: []string{folder},
		}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(context.Background(), names...)
	if err != nil {
		return nil, err
	}
	request := &pluginpb.CodeGeneratorRequest{
		FileToGenerate: names,
		Parameter:      proto.String("module=" + module),
	}
	seen := map[string]bool{}
	for _, file := range files {
		add(request, file, seen)
	}
	return proto.Marshal(request)
}

// add appends a file after those that it imports, each once.
func add(request *pluginpb.CodeGeneratorRequest, file protoreflect.FileDescriptor, seen map[string]bool) {
	if seen[file.Path()] {
		return
	}
	seen[file.Path()] = true
	imports := file.Imports()
	for i := range imports.Len() {
		imported := imports.Get(i).FileDescriptor
		if full, ok := file.(linker.File); ok {
			if found := full.FindImportByPath(imported.Path()); found != nil {
				imported = found
			}
		}
		add(request, imported, seen)
	}
	request.ProtoFile = append(request.ProtoFile, protoutil.ProtoFromFileDescriptor(file))
}

// run hands the request to a plug-in, and writes the files that it makes.
func run(plugin string, request []byte, folder string) error {
	command := exec.Command(plugin)
	command.Stdin = bytes.NewReader(request)
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		return fmt.Errorf("%s: %w", plugin, err)
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(output, &response); err != nil {
		return fmt.Errorf("%s: %w", plugin, err)
	}
	if response.Error != nil {
		return fmt.Errorf("%s: %s", plugin, response.GetError())
	}
	for _, file := range response.GetFile() {
		path := filepath.Join(folder, filepath.FromSlash(file.GetName()))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(file.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
