# SPDX-License-Identifier: Apache-2.0
# Writes FILES as the table of page_files.h into the source OUT: the bytes of each, and the same compressed by GZIP.
# cmake -DFILES=a;b -DOUT=FILE -DGZIP=/usr/bin/gzip -P embed.cmake
set(types_html "text/html; charset=utf-8")
set(types_css "text/css; charset=utf-8")
set(types_js "text/javascript; charset=utf-8")
set(types_svg "image/svg+xml")

# Appends the array `name` with the bytes of a file.
function(append_bytes file name)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "(..)" "'\\\\x\\1'," chars "${hex}")
  string(REGEX REPLACE "((........){16})" "\\1\n" chars "${chars}")
  file(APPEND ${OUT}.new "constexpr char ${name}[] = {\n${chars}};\n")
endfunction()

file(WRITE ${OUT}.new "// Made by embed.cmake.\n#include \"server/fronts/page/page_files.h\"\n\n"
  "namespace dunlin::server::page {\nnamespace {\n\n")
set(rows "")
set(index 0)
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME)
  string(REGEX REPLACE "^.*\\." "" extension ${name})
  file(SHA256 ${file} digest)
  string(SUBSTRING ${digest} 0 32 digest)
  execute_process(COMMAND ${GZIP} -9 -n -c ${file} OUTPUT_FILE ${OUT}.gz RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "${GZIP} ${file}: ${failed}")
  endif()
  append_bytes(${file} kBytes${index})
  append_bytes(${OUT}.gz kGzip${index})
  string(APPEND rows "    {\"${name}\", \"${types_${extension}}\", \"${digest}\", "
    "{kBytes${index}, sizeof(kBytes${index})}, {kGzip${index}, sizeof(kGzip${index})}},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(REMOVE ${OUT}.gz)
file(APPEND ${OUT}.new "constexpr PageFile kFiles[] = {\n${rows}};\n\n}  // namespace\n\n"
  "std::span<const PageFile> PageFiles() {\n  return kFiles;\n}\n\n}  // namespace dunlin::server::page\n")
file(RENAME ${OUT}.new ${OUT})
