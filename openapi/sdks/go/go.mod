module dueq.dev/go

go 1.23
