# The headers that an installation has, by folder: what users include as <mxcheck/FOLDER/HEADER>. All others are
# internal: they may change or go with any version. A public header includes public ones alone;
# cmake/write_public_headers.cmake refuses anything else.
set(mxcheck_public_folders numerics reference goldens kernels)

set(mxcheck_public_numerics
    accumulate/contract.h
    accumulate/exact_sum.h
    accumulate/fused_sum.h
    bytes.h
    elementary/elementary.h
    error.h
    format/codec.h
    format/format.h
    format/packing.h
    measure/measures.h
    measure/median_search.h
    measure/paired_errors.h
    names.h
    scale/recipe.h
    scale/recipe_words.h
    scale/scale_rule.h
    scale/two_level.h
    tensor.h
    text.h)

set(mxcheck_public_reference
    common/matrix.h
    error/input_facts.h
    error/matmul_error.h
    error/study.h
    layer/aggregate.h
    layer/dispatch.h
    layer/layer.h
    layer/layer_recipe.h
    layer/operands.h
    layer/routes.h
    layer/swiglu.h
    matmul/matmul.h
    quantize/hadamard.h
    quantize/ms_eden.h
    quantize/quantize.h
    quantize/quantized_tensor.h
    quantize/scale_layout.h
    quantize/stretches.h
    router/loss.h
    router/metadata.h
    router/router.h
    router/token_rounding.h)

set(mxcheck_public_goldens
    format/golden.h
    format/manifest.h
    format/reader.h
    format/writer.h
    format/quantized_file.h
    io/row_reader.h
    io/tensor_file.h
    data/embedded.h)

# The C interface. It does not need the rest, and is not part of mxcheck/mxcheck.h. cmake/install.cmake installs it a second
# time, for kernel libraries that include "kernels/candidate.h".
set(mxcheck_public_kernels candidate.h candidate_dispatch.h candidate_kept_weights.h candidate_layer.h candidate_matmul.h
    candidate_moe.h candidate_nvfp4.h candidate_route.h)

# Headers that public headers may include besides C++'s own. dlpack is declared by mxcheck::candidate.
set(mxcheck_public_includes_of_others dlpack/dlpack.h stdint.h)
