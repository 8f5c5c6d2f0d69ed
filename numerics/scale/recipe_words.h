#pragma once
// A recipe's policies as words: what flags take and files record.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "numerics/scale/recipe.h"

namespace mxcheck {

std::string hexfloat(double value);  // 0x1.cp+8, nan, inf

// Words of the flags, in the order of the help; what they select.
const std::vector<std::pair<std::string, NanPolicy>>& nan_words();
const std::vector<std::pair<std::string, Rounding>>& rounding_words();  // without stochastic: it needs words
const std::vector<std::pair<std::string, Overflow>>& overflow_words();
const std::vector<std::pair<std::string, ElementScaling>>& scaling_words();

// Every field of the recipe as key and value, in a fixed order: two recipes with the same fields give the same bytes.
std::vector<std::pair<std::string, std::string>> describe(const Recipe& recipe);

template <class T>
std::vector<std::string> words_of(const std::vector<std::pair<std::string, T>>& table) {
  std::vector<std::string> words;
  for (const auto& [word, value] : table) words.push_back(word);
  return words;
}

template <class T>
T value_of(const std::vector<std::pair<std::string, T>>& table, const std::string& word) {
  for (const auto& [known, value] : table) {
    if (known == word) return value;
  }
  return table.front().second;  // unreachable: the parser has checked the word
}

template <class T>
std::string word_of(const std::vector<std::pair<std::string, T>>& table, T value) {
  for (const auto& [word, known] : table) {
    if (known == value) return word;
  }
  return "other";
}

}  // namespace mxcheck
