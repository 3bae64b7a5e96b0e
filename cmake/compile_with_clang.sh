#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A compiler launcher (CMake's CXX_COMPILER_LAUNCHER) that compiles with clang what CMake prepared for GCC: the sources of tests
# (DunlinTests.cmake). Usage: compile_with_clang.sh COMMAND... -- /usr/bin/c++ ARGUMENT...; COMMAND is clang, or ccache and clang.
# It leaves out what GCC alone understands. A precompiled header goes into GCC's file, which clang looks for, too, with the
# templates that it uses instantiated.
set -eu
command=
while [ "$1" != -- ]; do
  command="$command $1"
  shift
done
shift 2
previous=
output=
for argument; do
  shift
  case $previous in -o) output=$argument ;; esac
  previous=$argument
  case $argument in
    -fpch-preprocess | --param=ggc-* | -Wno-restrict | -Wno-stringop-* | -Wno-subobject-linkage) continue ;;
    -Wconversion) set -- "$@" -Wconversion -Wno-sign-conversion; continue ;; # which GCC leaves to another option
    # Clang would read a file that is there in place of the header.
    c++-header) header=1; set -- "$@" c++-header -Xclang -fpch-instantiate-templates -Xclang -fno-pch-timestamp; continue ;;
  esac
  set -- "$@" "$argument"
done
if [ -n "${header-}" ]; then rm -f "$output"; fi
# shellcheck disable=SC2086 # the words of a command
exec $command "$@"
