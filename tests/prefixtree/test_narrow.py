"""Products of few rows equal the library's, and a model is left as it was."""

import pytest
import torch

from evenhand.prefixtree.narrow import narrow_linear, narrow_products


@pytest.mark.parametrize("count", [1, 2, 4, 5, 9, 15, 16, 33, 64, 65])
@pytest.mark.parametrize("bias", [True, False])
def test_every_number_of_rows_gives_the_linear_layers_output(count, bias):
    torch.manual_seed(count)
    layer = torch.nn.Linear(24, 10, bias=bias)
    rows = torch.randn(1, count, 24)
    with torch.no_grad():
        torch.testing.assert_close(narrow_linear(layer, rows), layer(rows))


def large(dtype=torch.float32):
    return torch.nn.Linear(512, 256, dtype=dtype)


def test_layers_are_themselves_again_afterwards_even_after_an_error():
    model = torch.nn.Sequential(large(), large())
    with pytest.raises(RuntimeError, match="mat1 and mat2"), narrow_products(model):
        model[0](torch.ones(1, 3))
    assert all("forward" not in vars(layer) for layer in model)


def test_another_precision_and_a_small_weight_keep_the_librarys_way():
    model = torch.nn.Sequential(large(), large(torch.bfloat16), torch.nn.Linear(4, 4))
    with narrow_products(model):
        assert ["forward" in vars(layer) for layer in model] == [True, False, False]
