// The description of the API that /openapi.json serves (OpenAPI 3.1).
#include "server/routes.h"

namespace sprat::server {

std::string_view OpenApiDocument() {
  static constexpr char kDocument[] = R"json({
"openapi":"3.1.0",
"info":{"title":"Sprat","version":"1","description":"Text embeddings: the OpenAI route and those of Text Embeddings Inference."},
"components":{
"securitySchemes":{"key":{"type":"http","scheme":"bearer"}},
"schemas":{
"Text":{"type":"string"},
"Ids":{"type":"array","minItems":1,"items":{"type":"integer","minimum":0,"maximum":4294967295},"description":"Token ids of the served model, used as given: no special tokens are added."},
"Input":{"description":"A text, a list of texts, the token ids of one text, or those of several.","anyOf":[
{"$ref":"#/components/schemas/Text"},
{"type":"array","minItems":1,"maxItems":2048,"items":{"$ref":"#/components/schemas/Text"}},
{"$ref":"#/components/schemas/Ids"},
{"type":"array","minItems":1,"maxItems":2048,"items":{"$ref":"#/components/schemas/Ids"}}]},
"Truncate":{"type":["boolean","null"],"default":true,"description":"false: a text over the model's length is an error, 413."},
"PromptName":{"type":["string","null"],"description":"The name of a prompt of the model; its text is put before each input."},
"Dimensions":{"type":["integer","null"],"minimum":1,"description":"Keep the first values, then normalise again."},
"OpenAiError":{"type":"object","required":["error"],"properties":{"error":{"type":"object","required":["message","type","param","code"],"properties":{"message":{"type":"string"},"type":{"type":"string"},"param":{"type":["string","null"]},"code":{"type":["string","null"]}}}}},
"TeiError":{"type":"object","required":["error","error_type"],"properties":{"error":{"type":"string"},"error_type":{"type":"string"}}},
"Model":{"type":"object","required":["id","object","created","owned_by"],"properties":{"id":{"type":"string"},"object":{"const":"model"},"created":{"type":"integer"},"owned_by":{"type":"string"}}},
"EmbeddingRequest":{"type":"object","required":["input"],"properties":{
"input":{"$ref":"#/components/schemas/Input"},
"model":{"type":["string","null"],"description":"May be left out if one model is served."},
"encoding_format":{"enum":["float","base64",null],"default":"float"},
"dimensions":{"$ref":"#/components/schemas/Dimensions"},
"user":{"type":["string","null"]},
"prompt_name":{"$ref":"#/components/schemas/PromptName"},
"truncate":{"$ref":"#/components/schemas/Truncate"}}},
"EmbeddingResponse":{"type":"object","required":["object","data","model","usage"],"properties":{
"object":{"const":"list"},
"data":{"type":"array","items":{"type":"object","required":["object","index","embedding"],"properties":{"object":{"const":"embedding"},"index":{"type":"integer"},"embedding":{"anyOf":[{"type":"array","items":{"type":"number"}},{"type":"string","contentEncoding":"base64"}]}}}},
"model":{"type":"string"},
"usage":{"type":"object","required":["prompt_tokens","total_tokens"],"properties":{"prompt_tokens":{"type":"integer"},"total_tokens":{"type":"integer"}}}}},
"EmbedRequest":{"type":"object","required":["inputs"],"properties":{
"inputs":{"$ref":"#/components/schemas/Input"},
"normalize":{"type":["boolean","null"],"default":true},
"dimensions":{"$ref":"#/components/schemas/Dimensions"},
"prompt_name":{"$ref":"#/components/schemas/PromptName"},
"truncate":{"$ref":"#/components/schemas/Truncate"},
"truncation_direction":{"enum":["right","Right",null]}}},
"SimilarityRequest":{"type":"object","required":["inputs"],"properties":{
"inputs":{"type":"object","required":["source_sentence","sentences"],"properties":{"source_sentence":{"type":"string"},"sentences":{"type":"array","minItems":1,"maxItems":2048,"items":{"type":"string"}}}},
"parameters":{"type":["object","null"],"properties":{"prompt_name":{"$ref":"#/components/schemas/PromptName"},"truncate":{"$ref":"#/components/schemas/Truncate"},"truncation_direction":{"enum":["right","Right",null]}}}}},
"TokenizeRequest":{"type":"object","required":["inputs"],"properties":{
"inputs":{"anyOf":[{"type":"string"},{"type":"array","minItems":1,"maxItems":2048,"items":{"type":"string"}}]},
"add_special_tokens":{"type":["boolean","null"],"default":true},
"prompt_name":{"$ref":"#/components/schemas/PromptName"}}},
"EmbedAllRequest":{"type":"object","required":["inputs"],"properties":{
"inputs":{"$ref":"#/components/schemas/Input"},
"prompt_name":{"$ref":"#/components/schemas/PromptName"},
"truncate":{"$ref":"#/components/schemas/Truncate"},
"truncation_direction":{"enum":["right","Right",null]}}},
"DecodeRequest":{"type":"object","required":["ids"],"properties":{
"ids":{"anyOf":[{"$ref":"#/components/schemas/Ids"},{"type":"array","minItems":1,"maxItems":2048,"items":{"$ref":"#/components/schemas/Ids"}}]},
"skip_special_tokens":{"type":["boolean","null"],"default":true}}},
"Token":{"type":"object","required":["id","text","special","start","stop"],"properties":{"id":{"type":"integer"},"text":{"type":"string"},"special":{"type":"boolean"},"start":{"type":["integer","null"]},"stop":{"type":["integer","null"]}}}},
"responses":{
"OpenAiError":{"description":"400 wrong input, 401 key, 404 model, 408 too slow, 413 too large, 415 not JSON, 429 queue full, 500, 503 loading or shutting down.","content":{"application/json":{"schema":{"$ref":"#/components/schemas/OpenAiError"}}}},
"TeiError":{"description":"400 malformed, 401 key, 408 too slow, 413 too large, 415 not JSON, 422 wrong type, 429 queue full, 500, 503 loading or shutting down.","content":{"application/json":{"schema":{"$ref":"#/components/schemas/TeiError"}}}}}},
"paths":{
"/v1/embeddings":{"post":{"operationId":"embeddings","security":[{},{"key":[]}],"requestBody":{"required":true,"content":{"application/json":{"schema":{"$ref":"#/components/schemas/EmbeddingRequest"}}}},"responses":{"200":{"description":"Vectors in the order of the inputs.","content":{"application/json":{"schema":{"$ref":"#/components/schemas/EmbeddingResponse"}}}},"default":{"$ref":"#/components/responses/OpenAiError"}}}},
"/v1/models":{"get":{"operationId":"models","security":[{},{"key":[]}],"responses":{"200":{"description":"The served models.","content":{"application/json":{"schema":{"type":"object","required":["object","data"],"properties":{"object":{"const":"list"},"data":{"type":"array","items":{"$ref":"#/components/schemas/Model"}}}}}}},"default":{"$ref":"#/components/responses/OpenAiError"}}}},
"/v1/models/{id}":{"get":{"operationId":"model","security":[{},{"key":[]}],"parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"string","minLength":1}}],"responses":{"200":{"description":"The model.","content":{"application/json":{"schema":{"$ref":"#/components/schemas/Model"}}}},"default":{"$ref":"#/components/responses/OpenAiError"}}}},
"/embed":{"post":{"operationId":"embed","security":[{},{"key":[]}],"requestBody":{"required":true,"content":{"application/json":{"schema":{"$ref":"#/components/schemas/EmbedRequest"}}}},"responses":{"200":{"description":"Vectors in the order of the inputs.","content":{"application/json":{"schema":{"type":"array","items":{"type":"array","items":{"type":"number"}}}}}},"default":{"$ref":"#/components/responses/TeiError"}}}},
"/similarity":{"post":{"operationId":"similarity","security":[{},{"key":[]}],"requestBody":{"required":true,"content":{"application/json":{"schema":{"$ref":"#/components/schemas/SimilarityRequest"}}}},"responses":{"200":{"description":"Cosines of the source sentence with each sentence.","content":{"application/json":{"schema":{"type":"array","items":{"type":"number"}}}}},"default":{"$ref":"#/components/responses/TeiError"}}}},
"/tokenize":{"post":{"operationId":"tokenize","security":[{},{"key":[]}],"requestBody":{"required":true,"content":{"application/json":{"schema":{"$ref":"#/components/schemas/TokenizeRequest"}}}},"responses":{"200":{"description":"Tokens of each text.","content":{"application/json":{"schema":{"type":"array","items":{"type":"array","items":{"$ref":"#/components/schemas/Token"}}}}}},"default":{"$ref":"#/components/responses/TeiError"}}}},
"/embed_all":{"post":{"operationId":"embedAll","security":[{},{"key":[]}],"requestBody":{"required":true,"content":{"application/json":{"schema":{"$ref":"#/components/schemas/EmbedAllRequest"}}}},"responses":{"200":{"description":"For each input a vector of each of its tokens, before pooling, not normalised.","content":{"application/json":{"schema":{"type":"array","items":{"type":"array","items":{"type":"array","items":{"type":"number"}}}}}}},"default":{"$ref":"#/components/responses/TeiError"}}}},
"/decode":{"post":{"operationId":"decode","security":[{},{"key":[]}],"requestBody":{"required":true,"content":{"application/json":{"schema":{"$ref":"#/components/schemas/DecodeRequest"}}}},"responses":{"200":{"description":"The text of each list of ids.","content":{"application/json":{"schema":{"type":"array","items":{"type":"string"}}}}},"default":{"$ref":"#/components/responses/TeiError"}}}},
"/info":{"get":{"operationId":"info","security":[{},{"key":[]}],"responses":{"200":{"description":"The model and the limits.","content":{"application/json":{"schema":{"type":"object"}}}},"default":{"$ref":"#/components/responses/TeiError"}}}},
"/health":{"get":{"operationId":"health","responses":{"200":{"description":"Every model has run once.","content":{"application/json":{"schema":{"type":"object"}}}},"default":{"$ref":"#/components/responses/TeiError"}}}},
"/ready":{"get":{"operationId":"ready","responses":{"200":{"description":"Requests are taken.","content":{"application/json":{"schema":{"type":"object"}}}},"default":{"$ref":"#/components/responses/TeiError"}}}},
"/metrics":{"get":{"operationId":"metrics","responses":{"200":{"description":"Counters and histograms for Prometheus.","content":{"text/plain":{"schema":{"type":"string"}}}}}}}
}})json";
  return {kDocument, sizeof kDocument - 1};
}

}  // namespace sprat::server
