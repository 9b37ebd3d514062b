module dueq.dev/go/tests

go 1.23

require dueq.dev/go v0.1.0

replace dueq.dev/go => ../../../target/sdks/go
