module milligpu/tests/cluster/tools/pause

go 1.26.0
