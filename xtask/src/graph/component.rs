//! Strongly connected components of a graph, by Tarjan's algorithm (1972).

/// Returns the strongly connected components of a graph, whose nodes are numbers and whose arrows
/// from node `n` lead to `arrows[n]`. Every node is in one component; the nodes of each are sorted.
pub fn components(arrows: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut search = Search {
        arrows,
        numbers: vec![None; arrows.len()],
        low: vec![0; arrows.len()],
        on_stack: vec![false; arrows.len()],
        stack: Vec::new(),
        visited: 0,
        found: Vec::new(),
    };
    for node in 0..arrows.len() {
        if search.numbers[node].is_none() {
            search.visit(node);
        }
    }
    search.found
}

/// Depth-first search.
struct Search<'a> {
    arrows: &'a [Vec<usize>],
    /// Order in which the nodes were visited.
    numbers: Vec<Option<usize>>,
    /// Lowest number on the stack that each node reaches.
    low: Vec<usize>,
    on_stack: Vec<bool>,
    /// Visited nodes whose components are not complete.
    stack: Vec<usize>,
    visited: usize,
    found: Vec<Vec<usize>>,
}

impl Search<'_> {
    /// Visits a node and all that it reaches; the depth of the recursion is the number of files.
    fn visit(&mut self, node: usize) {
        let number = self.visited;
        self.visited += 1;
        self.numbers[node] = Some(number);
        self.low[node] = number;
        self.stack.push(node);
        self.on_stack[node] = true;
        for &next in &self.arrows[node] {
            match self.numbers[next] {
                None => {
                    self.visit(next);
                    self.low[node] = self.low[node].min(self.low[next]);
                }
                Some(number) if self.on_stack[next] => {
                    self.low[node] = self.low[node].min(number);
                }
                Some(_) => {}
            }
        }
        if self.low[node] == number {
            self.complete(node);
        }
    }

    /// Takes the component off the stack whose first visited node is `root`.
    fn complete(&mut self, root: usize) {
        let start = self.stack.iter().rposition(|node| *node == root).unwrap_or_default();
        let mut component = self.stack.split_off(start);
        component.sort_unstable();
        for node in &component {
            self.on_stack[*node] = false;
        }
        self.found.push(component);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(arrows: &[&[usize]]) -> Vec<Vec<usize>> {
        let arrows: Vec<_> = arrows.iter().map(|next| next.to_vec()).collect();
        let mut found = components(&arrows);
        found.sort();
        found
    }

    #[test]
    fn nodes_without_circles_are_alone() {
        assert_eq!(sorted(&[]), [[0; 0]; 0]);
        assert_eq!(sorted(&[&[1, 2], &[2], &[]]), [[0], [1], [2]]);
    }

    #[test]
    fn nodes_that_reach_each_other_are_together() {
        assert_eq!(sorted(&[&[1], &[2], &[0]]), [[0, 1, 2]]);
        let two = sorted(&[&[1], &[0, 2], &[3], &[4], &[2]]);
        assert_eq!(two, [vec![0, 1], vec![2, 3, 4]]);
    }

    #[test]
    fn an_arrow_to_a_complete_component_joins_nothing() {
        assert_eq!(sorted(&[&[], &[0, 2], &[1, 0]]), [vec![0], vec![1, 2]]);
    }

    #[test]
    fn circles_that_share_a_node_are_one() {
        assert_eq!(sorted(&[&[1, 2], &[0], &[0], &[0]]), [vec![0, 1, 2], vec![3]]);
    }
}
