//! The set of tools that a model may call.

use std::collections::HashSet;
use std::fmt;

use serde_json::Value;

use super::todo::{ClaimTask, CompleteTask, CreateTask, GetTask, ListTasks};
use super::{
    Access, AgentToolContext, AnyTool, EditFile, ReadFile, ToolOutcome, ToolSpec, WriteFile,
};
use crate::cancel_flag::CancelFlag;

/// A set of tools, in the order in which they were added.
#[derive(Default)]
pub struct Toolbox {
    tools: Vec<Box<dyn AnyTool>>,
    specs: Vec<ToolSpec>,
}

impl Toolbox {
    /// Creates a toolbox without tools.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool at the end of the set.
    #[must_use]
    pub fn with_tool(mut self, tool: impl AnyTool + 'static) -> Self {
        self.specs.push(tool.spec());
        self.tools.push(Box::new(tool));
        self
    }

    /// Adds the tools that read, write and edit files.
    #[must_use]
    pub fn with_file_tools(self) -> Self {
        self.with_tool(ReadFile).with_tool(WriteFile).with_tool(EditFile)
    }

    /// Adds the tools for the shared to-do list.
    #[must_use]
    pub fn with_todo_tools(self) -> Self {
        self.with_tool(CreateTask)
            .with_tool(ListTasks)
            .with_tool(GetTask)
            .with_tool(ClaimTask)
            .with_tool(CompleteTask)
    }

    /// Returns the specifications of all tools, for a request to a model.
    #[must_use]
    pub fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    /// Returns the names of the tools without side effects.
    #[must_use]
    pub fn read_only_tools(&self) -> HashSet<String> {
        let reading = self.tools.iter().zip(&self.specs);
        let reading = reading.filter(|(tool, _)| tool.access() == Access::ReadOnly);
        reading.map(|(_, spec)| spec.name.to_owned()).collect()
    }

    /// Runs the tool with this name on the input, after checking the input against the tool's
    /// arguments.
    ///
    /// # Errors
    ///
    /// A message for the model; if no tool has this name, the message lists the names of all tools.
    pub fn run(
        &self,
        context: &AgentToolContext,
        name: &str,
        input: Value,
        cancel: &CancelFlag,
    ) -> ToolOutcome {
        match self.specs.iter().position(|spec| spec.name == name) {
            Some(at) => self.tools[at].run(context, input, cancel),
            None => {
                let names: Vec<&str> = self.specs.iter().map(|spec| spec.name).collect();
                Err(format!("there is no tool `{name}`; the tools are {}", names.join(", ")))
            }
        }
    }
}

impl fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.specs.iter().map(|spec| spec.name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_plain_objects_with_described_fields() {
        let tools = Toolbox::new().with_file_tools().with_todo_tools();
        for ToolSpec { name, description: about, schema } in tools.specs() {
            assert!(!about.is_empty(), "{name}");
            assert_eq!(schema["type"], "object", "{name}");
            assert_eq!(schema["additionalProperties"], false, "{name}");
            for (field, schema) in
                schema["properties"].as_object().expect("the schema has properties")
            {
                assert!(schema["description"].is_string(), "{name} {field}: {schema}");
                assert!(schema["type"].is_string(), "{name} {field}: {schema}");
                assert!(schema.get("$ref").is_none(), "{name} {field}: {schema}");
            }
        }
    }

    #[test]
    fn read_only_tools_are_listed() {
        let reading = Toolbox::new().with_file_tools().with_todo_tools().read_only_tools();
        let wanted = ["get_task", "list_tasks", "read_file"].map(str::to_owned);
        assert_eq!(reading, HashSet::from(wanted));
    }
}
